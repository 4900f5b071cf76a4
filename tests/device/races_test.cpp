// SPDX-License-Identifier: Apache-2.0
// The same product two thousand times: a pipeline that races gives other bits once in a while.
// Reports: DeepGEMM#343 and #365 (short groups in one CTA), cutlass#3165 (one hot expert). And the
// same rows in other company, which must have the same bits as well.

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "backends/cuda/launch/choose.hpp"
#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

constexpr int kRepeats = 2000;

struct Racy {
  std::string name;
  std::vector<std::int32_t> counts;
  std::int64_t n, k;
  int num_sms = 0;  // few: whole large tiles in turns, where all SMs would share halves
};
void PrintTo(const Racy& racy, std::ostream* out) { *out << racy.name; }

std::vector<Racy> racy_shapes() {
  std::vector<std::int32_t> many_short;
  for (int i = 0; i < 128; ++i) many_short.push_back(1 + i * 7 % 40);
  std::vector<std::int32_t> few_in_a_row;
  for (int i = 0; i < 200; ++i) few_in_a_row.push_back(33 + i * 5 % 32);
  return {
      {"many_short_groups", many_short, 264, 256},
      {"short_contractions", {128, 128, 256, 256, 128, 256, 256, 256}, 768, 512},
      {"one_hot", {3, 1, 1500, 2, 0, 1, 3, 38}, 520, 384},
      {"odd_tile_counts", {129, 257, 1, 65, 385, 0, 193}, 904, 328},
      {"whole_tiles_in_turns", {257, 640, 129, 7, 384}, 520, 392, 3},
      {"narrow_last_columns", {600, 1100, 129, 7, 513}, 832, 392, 3},
      {"few_rows_in_a_row", few_in_a_row, 520, 64, 5},
      {"equal_rows", {384, 384, 384, 384, 384, 384, 384}, 648, 776, 7},
      // Pairs wait for one another where there are 16 rounds of more than 24 stages
      // (block/step.cuh).
      {"rounds_in_step", {2100, 300}, 2056, 1608, 4},
      {"equal_rows_in_step", {1704, 1640, 1700}, 2056, 776, 4},
      // Right halves of the last round, of which nothing exists, beside tiles of one stage.
      {"empty_halves", {700, 260, 513}, 264, 64, 10},
  };
}

class Repeats : public OnDevice, public ::testing::WithParamInterface<std::tuple<Pass, Racy>> {
 protected:
  void expect_equal_bits(int repeats) {
    const auto& [pass, racy] = GetParam();
    Case c;
    c.offs = ends(racy.counts);
    c.rows = c.offs.back();
    c.n = racy.n;
    c.k = racy.k;
    c.pass = pass;
    c.num_sms = racy.num_sms;
    expect_exact(c);  // the first result is not just repeated, it is right
    CaseOnDevice on(c);
    const Queue queue;
    for (const std::string& implementation : on.implementations()) {
      SCOPED_TRACE(implementation);
      const GroupedGemm plan = on.plan(implementation);
      on.prepare_random(plan, queue.get());
      for (int i = 0; i < repeats; ++i) {
        on.poison(queue.get());  // a store that is left out shows too
        on.execute(plan, queue.get());
        on.compare(queue.get());
      }
      EXPECT_EQ(on.differences(queue.get()), "");
      const math::TileCounters counters = on.counters(queue.get());
      EXPECT_EQ(counters.next, 0U) << "as before the launch";
      EXPECT_EQ(counters.finished, 0U);
      EXPECT_EQ(counters.begun, 0U);
    }
  }
};

TEST_P(Repeats, TwoThousandRunsGiveEqualBits) { expect_equal_bits(kRepeats); }

INSTANTIATE_TEST_SUITE_P(Racy, Repeats,
                         ::testing::Combine(::testing::Values(Pass::forward, Pass::dgrad,
                                                              Pass::wgrad),
                                            ::testing::ValuesIn(racy_shapes())),
                         [](const auto& parameter) {
                           return std::string(name(std::get<Pass>(parameter.param))) + "_" +
                                  std::get<Racy>(parameter.param).name;
                         });

// A token's bits that change with its neighbours: vllm#36488, Megatron-Bridge#4635.
class Company : public OnDevice, public ::testing::WithParamInterface<Pass> {};

TEST_P(Company, OtherRowCountsChangeNoBitOfABatchInvariantPlan) {
  const bool wgrad = GetParam() == Pass::wgrad;
  Case c;
  c.offs = {300, 300, 700};
  c.rows = 700;
  c.n = 264;
  c.k = 392;
  c.pass = GetParam();
  CaseOnDevice on(c, Operands::random);
  PlanOptions options;
  options.batch_invariant = true;
  const auto plan_of = [&](std::int64_t rows, int num_sms) {
    GroupedGemmProblem problem = on.problem();
    problem.max_rows = rows;
    options.num_sms = num_sms;
    return GroupedGemm::plan(problem, device_here().info, options);
  };
  // Bytes of a line of d that keeps its bits: one row, or one expert's gradient.
  const std::int64_t line = 2 * (wgrad ? c.n * c.k : (c.pass == Pass::forward ? c.n : c.k));
  const DeviceMemory first(line * (wgrad ? 3 : c.rows)), found(sizeof(Differences));
  check(cudaMemset(found.bytes(), 0, sizeof(Differences)), "cudaMemset");
  const auto d = [&] { return static_cast<std::byte*>(on.d()); };
  const auto compare = [&](std::int64_t begin, std::int64_t end) {
    count_differences(first.bytes() + begin * line, d() + begin * line, (end - begin) * line,
                      found.as<Differences>(), nullptr);
  };
  const auto execute = [&](std::int64_t rows, const std::vector<std::int32_t>& offs,
                           int num_sms = 0) {
    check(cudaMemcpy(on.offs(), offs.data(), 12, cudaMemcpyHostToDevice), "cudaMemcpy");
    const GroupedGemm plan = plan_of(rows, num_sms);
    GroupedGemmArgs args = on.args();
    args.a.qdata.shape[0] = rows;
    (wgrad ? args.b.qdata.shape[0] : args.d.shape[0]) = rows;
    on.poison(nullptr);
    plan.execute(args, on.workspace(plan.workspace_bytes()), Stream::from_native(kDevice, nullptr));
  };
  execute(700, c.offs);
  check(cudaMemcpy(first.bytes(), on.d(), static_cast<std::size_t>(line * (wgrad ? 3 : c.rows)),
                   cudaMemcpyDeviceToDevice),
        "cudaMemcpy");
  execute(700, c.offs, 1);  // whole large tiles, where all SMs share halves
  compare(0, wgrad ? 3 : 700);
  for (const std::int32_t few : {1, 2, 31, 64, 65, 129, 299}) {
    execute(700, {few, 300, 700});  // rows before `few` and from 300 on have the same expert
    if (wgrad) {
      compare(2, 3);
      continue;
    }
    compare(0, few);
    compare(300, 700);
    execute(few, {few, few, few});  // nor does the length of the buffer matter
    compare(0, few);
  }
  Differences result{};
  check(cudaMemcpy(&result, found.bytes(), sizeof(result), cudaMemcpyDeviceToHost), "cudaMemcpy");
  EXPECT_EQ(result.count, 0U);
}
INSTANTIATE_TEST_SUITE_P(Passes, Company,
                         ::testing::Values(Pass::forward, Pass::dgrad, Pass::wgrad),
                         [](const auto& parameter) { return std::string(name(parameter.param)); });

// Which kernel is taken depends on how many rows come with a row: all sum in the same order.
void expect_the_same_bits(const Case& c) {
  SCOPED_TRACE(describe(c));
  namespace sm90 = backends::cuda;
  CaseOnDevice on(c);
  const std::vector<std::string> implementations = on.implementations();
  const auto takers =
      std::count_if(sm90::kInstances.begin(), sm90::kInstances.end(), [&](const auto& instance) {
        return static_cast<bool>(sm90::launch::matches(instance, on.problem()));
      });
  ASSERT_EQ(implementations.size(), static_cast<std::size_t>(takers));
  on.prepare_random(on.plan(implementations.back()), nullptr);
  for (const std::string& implementation : implementations) {
    SCOPED_TRACE(implementation);
    on.poison(nullptr);
    on.execute(on.plan(implementation), nullptr);
    on.compare(nullptr);
    EXPECT_EQ(on.differences(nullptr), "");
  }
}

TEST_P(Company, EveryKernelThatTakesAProblemGivesTheSameBits) {
  Case c;
  c.n = 840;
  c.k = 1096;
  c.pass = GetParam();
  for (const std::vector<std::int32_t>& counts :
       {std::vector<std::int32_t>{1300, 0, 257, 64, 1, 450}, {450, 450, 450, 450}}) {
    c.offs = ends(counts);
    c.rows = c.offs.back();
    for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
      c.weights = weights;
      for (const DType d_dtype : {DType::bf16, DType::f32}) {
        c.d_dtype = d_dtype;
        expect_the_same_bits(c);
      }
    }
  }
}

}  // namespace
}  // namespace moesaic::device_tests
