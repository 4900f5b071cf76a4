// SPDX-License-Identifier: Apache-2.0
// Row counts and shapes that have broken grouped kernels elsewhere, with every compiled kernel and
// both baselines, bit for bit. Names say the symptom; the reports are named beside them.

#include <gtest/gtest.h>

#include <tuple>

#include "device/case.hpp"
#include "device/row_counts.hpp"

namespace moesaic::device_tests {
namespace {

struct Shape {
  std::int64_t k, n;
};

const std::vector<Shape> kShapes = {{64, 64},    {8, 8},    {128, 256}, {256, 128},
                                    {768, 1408}, {72, 200}, {1536, 512}};

std::int32_t sum(const std::vector<std::int32_t>& counts) {
  return counts.empty() ? 0 : ends(counts).back();
}

Case make(const Counts& counts, const Shape& shape, Pass pass) {
  Case c;
  c.offs = ends(counts.counts);
  c.rows = sum(counts.counts) + 37;  // a tail full of NaN: pytorch#154557, #193633
  c.n = shape.n;
  c.k = shape.k;
  c.pass = pass;
  return c;
}

/// Both storages, both output types, with and without accumulation or a zeroed tail.
template <class Body>
void for_all_flags(Case c, const Body& body) {
  for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
    for (const DType d_dtype : {DType::bf16, DType::f32}) {
      for (const bool flag : {false, true}) {
        c.weights = weights;
        c.d_dtype = d_dtype;
        c.accumulate = flag && c.pass == Pass::wgrad;
        c.tail = flag && c.pass != Pass::wgrad ? Tail::zero : Tail::leave;
        body(c);
      }
    }
  }
}

using Parameter = std::tuple<Pass, Counts>;
std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return std::string(name(std::get<Pass>(parameter.param))) + "_" +
         std::get<Counts>(parameter.param).name;
}
const auto kPasses = ::testing::Values(Pass::forward, Pass::dgrad, Pass::wgrad);

// Rows of a neighbour, of nobody or of an old result in a result: the whole output, guards and all,
// is compared.
class RowCounts : public OnDevice, public ::testing::WithParamInterface<Parameter> {};

TEST_P(RowCounts, NoRowIsLostAddedOrMixed) {
  const auto& [pass, counts] = GetParam();
  for (const Shape& shape : kShapes) {
    if (counts.counts.size() > 64 && shape.k * shape.n > 128 * 256) continue;
    for_all_flags(make(counts, shape, pass), expect_exact);
  }
}
INSTANTIATE_TEST_SUITE_P(Hostile, RowCounts,
                         ::testing::Combine(kPasses, ::testing::ValuesIn(hostile_counts())),
                         parameter_name);

// The same questions, few enough for compute-sanitizer.
class FewRowCounts : public OnDevice, public ::testing::WithParamInterface<Parameter> {};
TEST_P(FewRowCounts, NoRowIsLostAddedOrMixed) {
  const auto& [pass, counts] = GetParam();
  for_all_flags(make(counts, {72, 200}, pass), expect_exact);
  expect_exact(make(counts, {256, 136}, pass));
  for (const Shape& shape :
       {Shape{72, 264}, Shape{264, 72}}) {  // whole large tiles, also of a pair
    Case c = make(counts, shape, pass);
    for (const int num_sms : {1, 2}) {
      c.num_sms = num_sms;
      expect_exact(c);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Small, FewRowCounts,
    ::testing::Combine(kPasses, ::testing::Values(Counts{"empty_and_odd", {0, 5, 0, 130, 65, 0}},
                                                  Counts{"short_groups", {64, 1, 192, 128}},
                                                  Counts{"all_empty", {0, 0, 0}})),
    parameter_name);

// Many large tiles on one CTA, whose halves are stored under other tiles; tiles of few rows and
// halved ones between (few SMs, odd counts): cutlass#3165.
class LargeTiles : public OnDevice {};
TEST_F(LargeTiles, InTurnsHalvedAndBesideFewRowsAreExact) {
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    Case c = make({"large", {2048, 1999, 0, 7, 2049, 130}}, {776, 768}, pass);
    for (const int num_sms : {1, 5, 100, 0}) {
      c.num_sms = num_sms;
      for_all_flags(c, expect_exact);
    }
  }
}

// Tiles of every number of blocks of 64 rows, and whole, half, narrow and clipped last columns
// beside none, one and several whole ones. One SM: nearly all in turns.
TEST_F(LargeTiles, OfAnyRowsAndColumnsAreExact) {
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    for (const std::int64_t width : {64, 128, 192, 256, 384, 448, 512, 520, 832, 1016}) {
      const Shape shape = pass == Pass::forward ? Shape{200, width} : Shape{width, 200};
      Case c = make({"", {900, 65, 0, 129, 193, 385, 3, 512}}, shape, pass);
      for (const int num_sms : {1, 2, 7, 0}) {
        c.num_sms = num_sms;
        for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
          c.weights = weights;
          expect_exact(c);
        }
      }
    }
  }
}

TEST_F(LargeTiles, OfAnyNumberOfStagesAreExact) {
  for (const Pass pass : {Pass::forward, Pass::dgrad}) {
    for (const std::int64_t contracted : {8, 72, 136, 192, 200, 256, 264, 320}) {
      const Shape shape = pass == Pass::forward ? Shape{contracted, 520} : Shape{520, contracted};
      Case c = make({"", {385, 128, 9, 256}}, shape, pass);
      for (const int num_sms : {1, 3, 0}) {
        c.num_sms = num_sms;
        for_all_flags(c, expect_exact);
      }
    }
  }
}

// The exact shapes of reports: no hang, no wrong bit.
class ReportedShapes : public OnDevice {};
TEST_F(ReportedShapes, ShortContractionsInOneCta) {  // DeepGEMM#343, #375, #430
  const Counts counts{"", {128, 128, 256, 256, 128, 256, 256, 256}};
  for_all_flags(make(counts, {2048, 768}, Pass::wgrad), expect_exact);
}
TEST_F(ReportedShapes, TwoGroupsOf1408Finish) {  // DeepGEMM#429
  for_all_flags(make({"", {384, 256}}, {1408, 1408}, Pass::wgrad), expect_exact);
}
TEST_F(ReportedShapes, ALongContractionStaysInItsRows) {  // DeepGEMM#110
  Case c = make({"", {147'456}}, {1024, 512}, Pass::wgrad);
  c.d_dtype = DType::f32;  // sums of so many terms
  expect_exact(c);
}
TEST_F(ReportedShapes, OneRowOfOneExpertFinishes) {  // DeepGEMM#178
  expect_exact(make({"", {1}}, {1536, 24576}, Pass::forward));
}
TEST_F(ReportedShapes, FewerTilesThanSms) {  // cutlass#1543
  expect_exact(make({"", {1024, 0, 0}}, {640, 1024}, Pass::forward));
  expect_exact(make({"", {1, 0, 0}}, {640, 8}, Pass::forward));
}
TEST_F(ReportedShapes, EmptyExpertsGetZeroGradients) {  // pytorch#172439
  expect_exact(make({"", {162, 0, 2577, 446, 0, 83}}, {2048, 768}, Pass::wgrad));
}

// No rows at all: a null address, and gradients that must be zeros. pytorch#192497, TE#3019.
class NoRows : public OnDevice, public ::testing::WithParamInterface<Pass> {};
TEST_P(NoRows, ABufferOfNoRowsIsLegal) {
  Case c = make({"", {0, 0, 0}}, {64, 72}, GetParam());
  c.rows = 0;
  for_all_flags(c, expect_exact);
}
INSTANTIATE_TEST_SUITE_P(Small, NoRows, kPasses,
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

// Sixteen rounds of long tiles for the one pair, whose CTAs wait for one another.
class SmallSteps : public OnDevice {};
TEST_F(SmallSteps, OfOnePairAreExact) {
  Case c = make({"", {1024}}, {1024, 1608}, Pass::forward);
  c.num_sms = 2;
  expect_exact(c);
}

class Neighbours : public OnDevice, public ::testing::WithParamInterface<Pass> {};
// A copy box brings the next expert's rows along: TE#3116, flashinfer#3650, quack#201.
TEST_P(Neighbours, NanOfOneExpertStaysThere) {
  Case c = make({"", {130, 65, 1, 200, 60}}, {264, 200}, GetParam());
  for (const int expert : {0, 1, 2, 4}) {
    c.nan_expert = expert;
    for_all_flags(c, expect_exact);
  }
}
// Strides guessed from shapes: aiter#5385, vllm#17604. The gaps hold NaN and must keep it.
TEST_P(Neighbours, LinesApartAreNotTakenForDense) {
  for (const std::int64_t gap : {8, 120}) {
    Case c = make({"", {70, 3, 0, 200}}, {136, 328}, GetParam());
    c.line_gap = gap;
    for_all_flags(c, expect_exact);
  }
}
// The same guess for experts: every second one of a buffer, the others must stay.
TEST_P(Neighbours, ExpertsApartAreNotTakenForDense) {
  Case c = make({"", {70, 0, 3, 0, 0, 0, 200, 0}}, {136, 328}, GetParam());
  c.accumulate = c.pass == Pass::wgrad;
  for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
    c.weights = weights;
    SCOPED_TRACE(describe(c));
    CaseOnDevice on(c);
    GroupedGemmProblem problem = on.problem();
    problem.num_experts = 4;
    GroupedGemmArgs args = on.args();
    args.offs.shape[0] = 4;
    const std::vector<std::int32_t> offs = ends({70, 3, 0, 200});
    check(cudaMemcpy(on.offs(), offs.data(), 16, cudaMemcpyHostToDevice), "cudaMemcpy");
    const auto every_second = [](auto& view) {
      view.shape[0] /= 2;
      view.stride[0] *= 2;
    };
    if (c.pass == Pass::wgrad) {
      every_second(args.d);
    } else {
      every_second(args.b.qdata);
    }
    for (const std::string& implementation : on.implementations()) {
      SCOPED_TRACE(implementation);
      PlanOptions options;
      options.implementation = implementation;
      const GroupedGemm plan = GroupedGemm::plan(problem, device_here().info, options);
      on.poison(nullptr);
      plan.execute(args, on.workspace(plan.workspace_bytes()),
                   Stream::from_native(kDevice, nullptr));
      on.compare(nullptr);
      EXPECT_EQ(on.differences(nullptr), "");
    }
  }
}
// offs[E-1] may be the whole buffer: pytorch#190864.
TEST_P(Neighbours, TheLastOffsetMayBeTheBuffersEnd) {
  Case c = make({"", {100, 0, 33}}, {128, 264}, GetParam());
  c.rows = 133;
  for_all_flags(c, expect_exact);
}
INSTANTIATE_TEST_SUITE_P(Passes, Neighbours, kPasses,
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

// Padding copies and capacity: rows beyond it are neither dropped nor doubled.
class Baselines : public OnDevice,
                  public ::testing::WithParamInterface<std::tuple<Strategy, Pass>> {};
TEST_P(Baselines, RowsBeyondCapacityAreComputedToo) {
  const auto& [strategy, pass] = GetParam();
  for (const Counts& counts : hostile_counts()) {
    if (counts.counts.size() > 64) continue;
    for (const Shape& shape : {Shape{8, 8}, Shape{128, 256}, Shape{72, 200}}) {
      Case c = make(counts, shape, pass);
      c.strategy = strategy;
      if (shape.n == 200) {
        for_all_flags(c, [](const Case& one) {
          const bool refused = one.accumulate && one.strategy == Strategy::padded_bmm;
          if (!refused) expect_exact(one);  // the refusal: tests/backends/cuda
        });
      } else {
        expect_exact(c);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Cublas, Baselines,
    ::testing::Combine(::testing::Values(Strategy::padded_bmm, Strategy::host_loop), kPasses),
    [](const auto& parameter) {
      return std::string(name(std::get<Strategy>(parameter.param))) + "_" +
             std::string(name(std::get<Pass>(parameter.param)));
    });

}  // namespace
}  // namespace moesaic::device_tests
