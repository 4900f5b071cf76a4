// SPDX-License-Identifier: Apache-2.0
// Packed weights: every row count, odd widths, independence of their source, refusals.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

const Implementation kGrouped{"cpu/onednn/grouped", Strategy::grouped};
const Implementation kLoop{"cpu/onednn/host_loop", Strategy::host_loop};

GroupedGemmArgs packed_args(GroupedRun& run, const PackedWeights& packed) {
  GroupedGemmArgs args = run.args();
  args.b = {};
  args.packed_b = &packed;
  return args;
}

using Parameter = std::tuple<Implementation, Pass, WeightStorage>;
class Packed : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] static GroupedGemmProblem problem(std::int64_t experts, std::int64_t rows,
                                                  std::int64_t n, std::int64_t k,
                                                  Types types = kBf16) {
    return make_problem(std::get<Pass>(GetParam()), std::get<WeightStorage>(GetParam()), types,
                        experts, rows, n, k);
  }
  [[nodiscard]] static const Implementation& implementation() {
    return std::get<Implementation>(GetParam());
  }
};

/// Rows 1 to 300 of one expert: the layout was chosen for one row count and must serve all.
TEST_P(Packed, EveryRowCount) {
  const GroupedGemm gemm = plan(problem(2, 300, 40, 24), implementation());
  GroupedRun run(gemm.problem(), {0, 300});
  fill_operands(run, 1, 0.5, 1);
  const PackedWeights packed = gemm.pack_weights({run.b.view(), {}}, Stream::cpu());
  EXPECT_GT(packed.size_bytes(), 0);
  EXPECT_EQ(packed.implementation(), "cpu/onednn");
  GroupedRun want(gemm.problem(), {0, 300});
  fill_operands(want, 1, 0.5, 1);
  execute(want, {"cpu/reference/grouped", Strategy::grouped});
  const HostWorkspace workspace(gemm.workspace_bytes());
  for (std::int32_t rows = 1; rows <= 300; ++rows) {
    run.offs = {0, rows};
    run.d.fill(-99);
    gemm.execute(packed_args(run, packed), workspace.get(), Stream::cpu());
    for (std::int64_t row = 0; row < 300; ++row) {
      for (std::int64_t column = 0; column < run.d.columns(); column += row == rows - 1 ? 1 : 7) {
        ASSERT_EQ(run.d.get(0, row, column), row < rows ? want.d.get(0, row, column) : -99)
            << rows << " rows: " << row << " " << column;
      }
    }
  }
}

/// Rows far apart too: the packed layout must not follow from strides that only the call knows.
TEST_P(Packed, EveryWidth) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {
      {8, 8}, {8, 200}, {200, 8}, {24, 40}, {56, 104}, {64, 64}, {72, 72}, {264, 16}, {136, 264}};
  for (const Types types : kAllTypes) {
    for (const auto& [n, k] : sizes) {
      const Counts counts = {3, 0, 1, 33, 17};
      const GroupedGemm gemm = plan(problem(5, total(counts) + 3, n, k, types), implementation());
      GroupedRun run(gemm.problem(), ends(counts), kScattered);
      fill_operands(run, 1, 0.4, 2);
      const PackedWeights packed = gemm.pack_weights({run.b.view(), {}}, Stream::cpu());
      const HostWorkspace workspace(gemm.workspace_bytes());
      gemm.execute(packed_args(run, packed), workspace.get(), Stream::cpu());
      EXPECT_EQ(integer_mismatch(run), "") << "n " << n << ", k " << k << ", " << name(types.format)
                                           << " to " << name(types.d_dtype);
    }
  }
}

/// A copy of its own: later changes of the weights, even their end, do not reach it.
TEST_P(Packed, DoesNotFollowItsSource) {
  const GroupedGemm gemm = plan(problem(2, 50, 40, 24), implementation());
  GroupedRun run(gemm.problem(), {20, 50});
  fill_operands(run, 1, 0.5, 3);
  PackedWeights packed;
  {
    GroupedRun source(gemm.problem(), {20, 50});
    fill_operands(source, 1, 0.5, 3);
    packed = gemm.pack_weights({source.b.view(), {}}, Stream::cpu());
    source.b.fill(std::numeric_limits<double>::quiet_NaN());
  }
  const PackedWeights copy = packed;
  packed = {};
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(packed_args(run, copy), workspace.get(), Stream::cpu());
  EXPECT_EQ(integer_mismatch(run), "");
}

/// Another plan of the same weights takes them: other row counts, strides, type of d, threads.
TEST_P(Packed, ServesOtherPlansOfTheSameWeights) {
  const GroupedGemm gemm = plan(problem(2, 50, 40, 24), implementation());
  for (const Types types : {kBf16, kBf16ToF32}) {
    GroupedRun run(problem(2, 700, 40, 24, types), {600, 700}, kScattered);
    fill_operands(run, 1, 0.5, 4);
    const PackedWeights packed = gemm.pack_weights({run.b.view(), {}}, Stream::cpu());
    for (const Implementation& other : {kGrouped, kLoop}) {
      for (const int limit : {0, 1}) {
        PlanOptions options;
        options.num_sms = limit;
        run.d.fill(0);
        const GroupedGemm larger = plan(run.problem, other, options);
        const HostWorkspace workspace(larger.workspace_bytes());
        larger.execute(packed_args(run, packed), workspace.get(), Stream::cpu());
        EXPECT_EQ(integer_mismatch(run), "") << other.name << ", limit " << limit;
      }
    }
  }
}

TEST_P(Packed, RefusedWhereItDoesNotFit) {
  const GroupedGemm gemm = plan(problem(2, 50, 40, 24), implementation());
  GroupedRun source(gemm.problem(), {20, 50});
  fill_operands(source, 1, 0.5, 5);
  const PackedWeights packed = gemm.pack_weights({source.b.view(), {}}, Stream::cpu());
  const auto refuse = [&](const GroupedGemmProblem& other, const Implementation& by) {
    std::vector<std::int32_t> offs(static_cast<std::size_t>(other.num_experts), 5);
    GroupedRun run(other, offs);
    const std::vector<std::byte> before = run.d.snapshot();
    const GroupedGemm wrong = plan(other, by);
    const HostWorkspace workspace(wrong.workspace_bytes());
    expect_error(ErrorCode::invalid_argument, {"packed_b"},
                 [&] { wrong.execute(packed_args(run, packed), workspace.get(), Stream::cpu()); });
    EXPECT_EQ(run.d.stray_change(before, [](auto, auto, auto) { return false; }), "");
  };
  refuse(problem(3, 50, 40, 24), implementation());
  refuse(problem(2, 50, 24, 40), implementation());
  refuse(problem(2, 50, 40, 32), implementation());
  refuse(problem(2, 50, 48, 24), implementation());
  refuse(problem(2, 50, 40, 24, kF32), implementation());
  GroupedGemmProblem other_pass = problem(2, 50, 40, 24);
  other_pass.pass = other_pass.pass == Pass::forward ? Pass::dgrad : Pass::forward;
  refuse(other_pass, implementation());
  // Implementations that read no packed layout must say so, not read what is not there.
  refuse(problem(2, 50, 40, 24), {"cpu/reference/grouped", Strategy::grouped});
  refuse(problem(2, 50, 40, 24), {"cpu/onednn/padded_bmm", Strategy::padded_bmm});
}

TEST_P(Packed, ChecksItsSource) {
  const GroupedGemm gemm = plan(problem(2, 50, 40, 24), implementation());
  GroupedRun run(gemm.problem(), {20, 50});
  ConstTensorView w = run.b.view();
  w.shape[0] = 3;
  expect_error(ErrorCode::invalid_argument, {"w", "[2, "}, [&] {
    (void)gemm.pack_weights({w, {}}, Stream::cpu());
  });
  w = run.b.view();
  w.dtype = DType::f32;
  expect_error(ErrorCode::invalid_argument, {"w", "f32"}, [&] {
    (void)gemm.pack_weights({w, {}}, Stream::cpu());
  });
  const Stream foreign = Stream::from_native(Device{DeviceKind::cuda, 0}, nullptr);
  expect_error(ErrorCode::invalid_argument, {"stream"}, [&] {
    (void)gemm.pack_weights({run.b.view(), {}}, foreign);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Packed,
                         ::testing::Combine(::testing::Values(kGrouped, kLoop),
                                            ::testing::Values(Pass::forward, Pass::dgrad),
                                            ::testing::ValuesIn(kAllStorages)),
                         [](const auto& instance) {
                           return test_name(
                               std::get<Implementation>(instance.param).name + "_" +
                               std::string(name(std::get<Pass>(instance.param))) + "_" +
                               std::string(name(std::get<WeightStorage>(instance.param))));
                         });

}  // namespace
}  // namespace moesaic::testing
