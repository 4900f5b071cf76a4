// SPDX-License-Identifier: Apache-2.0
// Every implementation on hostile row counts, with integers for which every partial sum and every
// result is exact: bit for bit, whatever the order of summation.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/implementations.hpp"
#include "support/parameters.hpp"

namespace moesaic::testing {
namespace {

/// Sparse ternary operands: |sum| stays below 2^8, which BF16 holds exactly.
constexpr double kDensity = 0.5;
constexpr std::int64_t kN = 40, kK = 24;

using Parameter = PassAndStorage;

class Exact : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] GroupedGemmProblem problem(Types types, const Counts& counts,
                                           std::int64_t tail_rows) const {
    return make_problem(std::get<Pass>(GetParam()), std::get<WeightStorage>(GetParam()), types,
                        static_cast<std::int64_t>(counts.size()), total(counts) + tail_rows, kN,
                        kK);
  }
  [[nodiscard]] const Implementation& implementation() const {
    return std::get<Implementation>(GetParam());
  }
  [[nodiscard]] bool is_wgrad() const { return std::get<Pass>(GetParam()) == Pass::wgrad; }

  /// Executes and compares everything: results, tail, gaps, guards.
  void check(GroupedRun& run, std::optional<std::int64_t> before = {}) {
    const std::vector<std::byte> untouched = run.d.snapshot();
    const DeviceFault fault = execute(run, implementation());
    EXPECT_FALSE(fault) << fault.expert;
    EXPECT_EQ(integer_mismatch(run, before), "");
    const bool writes_all = is_wgrad() ? !run.problem.accumulate : run.problem.tail == Tail::zero;
    const std::vector<bool> routed = run.routed_rows();
    const auto written = [&](std::int64_t expert, std::int64_t row, std::int64_t /*column*/) {
      const bool has_rows =
          is_wgrad() ? run.segment(expert).rows() > 0 : routed[static_cast<std::size_t>(row)];
      return has_rows || writes_all;
    };
    EXPECT_EQ(run.d.stray_change(untouched, written), "");
    if (writes_all) {
      expect_zero_where_absent(run, routed);
    }
  }

  void expect_zero_where_absent(const GroupedRun& run, const std::vector<bool>& routed) {
    std::int64_t not_zero = 0;
    for (std::int64_t expert = 0; expert < (is_wgrad() ? run.problem.num_experts : 1); ++expert) {
      for (std::int64_t row = 0; row < run.d.rows(); ++row) {
        const bool absent =
            is_wgrad() ? run.segment(expert).rows() == 0 : !routed[static_cast<std::size_t>(row)];
        for (std::int64_t column = 0; absent && column < run.d.columns(); ++column) {
          not_zero += run.d.bits(expert, row, column) != 0 ? 1 : 0;
        }
      }
    }
    EXPECT_EQ(not_zero, 0);
  }
};
class ExactWeights : public Exact {};

TEST_P(Exact, HostileCounts) {
  std::uint64_t seed = 1;
  for (const Types types : kAllTypes) {
    for (const auto& [name, counts] : hostile_counts()) {
      const std::int64_t tail_rows = seed % 5 < 2 ? 0 : 37;
      SCOPED_TRACE(name + ", d " + std::string(moesaic::name(types.d_dtype)) + ", tail rows " +
                   std::to_string(tail_rows));
      const Layout layout = seed % 2 == 0 ? kDense : kScattered;
      GroupedRun run(problem(types, counts, tail_rows), ends(counts), layout);
      run.problem.tail = seed % 3 == 0 ? Tail::zero : Tail::leave;
      fill_operands(run, 1, kDensity, ++seed);
      check(run);
    }
  }
}

TEST_P(Exact, ThousandsOfExperts) {
  for (const auto& [name, counts] : many_experts()) {
    SCOPED_TRACE(name);
    GroupedRun run(
        make_problem(std::get<Pass>(GetParam()), std::get<WeightStorage>(GetParam()), kBf16,
                     static_cast<std::int64_t>(counts.size()), total(counts) + 3, 8, 8),
        ends(counts));
    run.problem.tail = Tail::zero;
    fill_operands(run, 1, kDensity, 77);
    check(run);
  }
}

TEST_P(Exact, NarrowestAndUnevenWidths) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{8, 8},    {8, 72},   {72, 8},
                                                         {64, 200}, {136, 88}, {264, 16}};
  const Counts counts = {33, 0, 1, 64};
  for (const Types types : kAllTypes) {
    for (const auto& [n, k] : sizes) {
      SCOPED_TRACE("n " + std::to_string(n) + ", k " + std::to_string(k));
      GroupedRun run(make_problem(std::get<Pass>(GetParam()), std::get<WeightStorage>(GetParam()),
                                  types, 4, total(counts) + 5, n, k),
                     ends(counts), kScattered);
      fill_operands(run, 1, 0.4, 5);
      check(run);
    }
  }
}

/// FP32 holds every sum of |a|, |b| <= 8 exactly, BF16 does not: it must round once, to even.
TEST_P(Exact, AccumulatesInFp32AndRoundsOnce) {
  const Counts counts = {70, 3, 0, 190};
  GroupedRun run(problem(kBf16, counts, 0), ends(counts));
  GroupedRun wide(problem(kBf16ToF32, counts, 0), ends(counts));
  fill_operands(run, 8, 0.95, 9);
  fill_operands(wide, 8, 0.95, 9);
  execute(run, implementation());
  execute(wide, implementation());
  EXPECT_EQ(integer_mismatch(wide), "");
  std::int64_t inexact = 0;
  run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    const auto sum = static_cast<float>(run.integer_sum(expert, i, j));
    const float rounded = static_cast<float>(BFloat16(sum));
    inexact += rounded == sum ? 0 : 1;
    ASSERT_EQ(run.result(expert, i, j), rounded) << expert << " " << i << " " << j;
  });
  EXPECT_GT(inexact, 100);  // or the test shows nothing
}

TEST_P(ExactWeights, AccumulatingAddsToWhatIsThere) {
  for (const Types types : kAllTypes) {
    for (const auto& [name, counts] : hostile_counts()) {
      SCOPED_TRACE(name);
      GroupedRun run(problem(types, counts, 11), ends(counts), kScattered);
      run.problem.accumulate = true;
      fill_operands(run, 1, kDensity, 3);
      run.d.fill(-17);
      check(run, -17);
    }
  }
}

/// Adding nothing must not even turn -0 into +0, nor touch a NaN.
TEST_P(ExactWeights, AccumulatingLeavesEmptyExpertsBitForBit) {
  for (const double old : {-0.0, static_cast<double>(std::numeric_limits<float>::infinity())}) {
    const Counts counts = {0, 40, 0, 7, 0};
    GroupedRun run(problem(kBf16ToF32, counts, 0), ends(counts));
    run.problem.accumulate = true;
    fill_operands(run, 1, kDensity, 3);
    for (const std::int64_t expert : {0, 2, 4}) {
      run.d.fill_rows(expert, 0, run.d.rows(), old);
    }
    run.d.fill_rows(1, 0, run.d.rows(), 0);
    run.d.fill_rows(3, 0, run.d.rows(), 0);
    check(run);
  }
}

TEST_P(Exact, NoRowsAtAll) {
  GroupedRun run(problem(kBf16, {0, 0, 0}, 0), {0, 0, 0});
  ASSERT_EQ(run.problem.max_rows, 0);
  if (!is_wgrad()) {
    fill_operands(run, 1, kDensity, 1);
  }
  check(run);
  // A buffer of no rows may well have no memory.
  GroupedGemmArgs args = run.args();
  args.a.qdata.data = nullptr;
  if (is_wgrad()) {
    args.b.qdata.data = nullptr;
  } else {
    args.d.data = nullptr;
  }
  const GroupedGemm gemm = plan(run.problem, implementation());
  const HostWorkspace workspace(gemm.workspace_bytes());
  EXPECT_NO_THROW(gemm.execute(args, workspace.get(), Stream::cpu()));
}

TEST_P(Exact, OneWorkspaceServesManyExecutes) {
  const GroupedGemm gemm = plan(problem(kBf16, {300}, 0), implementation());
  const HostWorkspace workspace(gemm.workspace_bytes());
  std::uint64_t seed = 40;
  for (const std::int64_t rows : {300, 1, 0, 299, 64, 300}) {
    GroupedRun run(gemm.problem(), {static_cast<std::int32_t>(rows)});
    fill_operands(run, 1, kDensity, ++seed);
    gemm.execute(run.args(), workspace.get(), Stream::cpu());
    EXPECT_EQ(integer_mismatch(run), "") << rows;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Exact,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllPasses),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);
INSTANTIATE_TEST_SUITE_P(All, ExactWeights,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::Values(Pass::wgrad),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);

TEST(Implementations, EveryStrategyRunsWhereOnednnDoes) {
  GroupedGemmProblem problem = make_problem(Pass::forward, WeightStorage::enk, kBf16, 1, 8, 8, 8);
  EXPECT_NO_THROW(GroupedGemm::plan(problem, cpu()));
  std::vector<std::string> names;
  for (const Implementation& implementation : runnable()) {
    names.push_back(implementation.name);
  }
  EXPECT_NE(std::find(names.begin(), names.end(), "cpu/reference/grouped"), names.end());
}

}  // namespace
}  // namespace moesaic::testing
