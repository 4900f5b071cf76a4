// SPDX-License-Identifier: Apache-2.0
// The checker of grouped products must find every kind of fault, and no fault where there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "moesaic/check.hpp"
#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

constexpr CheckOptions kAll{-1, -1, 1};
const Implementation kOracle{"cpu/reference/grouped", Strategy::grouped};

struct Checked : ::testing::TestWithParam<std::tuple<Pass, WeightStorage, int>> {
  static constexpr Types kTypes[] = {kBf16, kBf16ToF32, kF32};
  [[nodiscard]] Types types() const { return kTypes[std::get<2>(GetParam())]; }
  [[nodiscard]] bool is_wgrad() const { return std::get<0>(GetParam()) == Pass::wgrad; }

  GroupedRun right_result() {
    const Counts counts = {9, 0, 30, 1};
    GroupedRun run(
        make_problem(std::get<0>(GetParam()), std::get<1>(GetParam()), types(), 4, 45, 16, 24),
        ends(counts), kScattered);
    fill_random(run, 1);
    execute(run, kOracle);
    EXPECT_EQ(bound_mismatch(run), "");
    return run;
  }
  CheckResult check(GroupedRun& run, const CheckOptions& options = kAll) {
    return check_grouped_gemm(run.problem, run.args(), options);
  }
};

class CheckedRows : public Checked {};
class CheckedWeights : public Checked {};
class CheckedBf16 : public Checked {};

TEST_P(Checked, ARightResultPasses) {
  GroupedRun run = right_result();
  const CheckResult result = check(run);
  const std::int64_t elements = is_wgrad() ? 4 * 16 * 24 : 40 * run.d.columns();
  EXPECT_EQ(result.elements, elements);
  EXPECT_EQ(result.mismatches, 0);
  EXPECT_LE(result.worst, 1);
  EXPECT_FALSE(result.first.has_value());
}

/// Every single element, off by more than its bound, is found and named.
TEST_P(Checked, AnyOneElement) {
  GroupedRun run = right_result();
  const std::string tensor[] = {"y", "dx", "dw"};
  std::vector<std::array<std::int64_t, 3>> places;
  run.for_each_result([&](std::int64_t e, std::int64_t i, std::int64_t j) {
    places.push_back({e, i, j});
  });
  for (std::size_t at = 0; at < places.size(); at += 13) {
    const auto [expert, i, j] = places[at];
    const std::int64_t axis = is_wgrad() ? expert : 0;
    const double old = run.d.get(axis, i, j);
    run.d.set(axis, i, j, old + 0.25 + std::abs(old) / 16);
    const CheckResult result = check(run);
    ASSERT_EQ(result.mismatches, 1);
    EXPECT_GT(result.worst, 1);
    ASSERT_TRUE(result.first.has_value());
    EXPECT_EQ(result.first->tensor, tensor[static_cast<int>(run.problem.pass)]);
    EXPECT_EQ(result.first->expert, expert);
    EXPECT_EQ(result.first->row, i);
    EXPECT_EQ(result.first->column, j);
    EXPECT_EQ(result.first->got, run.d.get(axis, i, j));
    EXPECT_NEAR(result.first->want, old, std::abs(old) / 128 + 1e-3);
    run.d.set(axis, i, j, old);
  }
}

/// The bound is tight: two units in the last place of the result's type are too far.
TEST_P(CheckedBf16, TwoUlpsTooFar) {
  GroupedRun run = right_result();
  // Where no cancellation happened, the allowance for accumulation is small against an ulp of BF16.
  std::int64_t moved = 0;
  run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    const std::int64_t axis = is_wgrad() ? expert : 0;
    const double old = run.d.get(axis, i, j);
    if (std::abs(old) > 0.5) {
      run.d.set(axis, i, j, old + 4 * half_spacing(old, DType::bf16));
      ++moved;
    }
  });
  ASSERT_GT(moved, 100);
  EXPECT_GT(check(run).mismatches, moved * 9 / 10);
}

TEST_P(Checked, ADroppedTerm) {
  GroupedRun run = right_result();
  std::int64_t dropped = 0;
  run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    double sum = 0, least = 0, count = 0;
    run.for_each_term(expert, i, j, [&](double left, double right) {
      const double term = left * right;
      sum += term;
      least = ++count == 1 || std::abs(term) < std::abs(least) ? term : least;
    });
    if (std::abs(least) > 0.02 * std::abs(sum) && std::abs(least) > 1e-2) {
      run.d.set(is_wgrad() ? expert : 0, i, j, sum - least);
      ++dropped;
    }
  });
  ASSERT_GT(dropped, 0);
  EXPECT_EQ(check(run).mismatches, dropped);
}

TEST_P(Checked, SwappedZeroedAndNanRows) {
  const auto broken_by = [&](const std::function<void(HostTensor&)>& spoil) {
    GroupedRun run = right_result();
    spoil(run.d);
    return check(run).mismatches;
  };
  const std::int64_t expert = is_wgrad() ? 2 : 0;
  const std::int64_t width = right_result().d.columns();
  EXPECT_GE(broken_by([&](HostTensor& d) {
              for (std::int64_t j = 0; j < width; ++j) {
                const double upper = d.get(expert, 12, j);
                d.set(expert, 12, j, d.get(expert, 13, j));
                d.set(expert, 13, j, upper);
              }
            }),
            2 * width - 2);
  EXPECT_GE(broken_by([&](HostTensor& d) { d.fill_rows(expert, 10, 11, 0); }), width - 1);
  EXPECT_EQ(broken_by([&](HostTensor& d) {
              d.fill_rows(expert, 10, 11, std::numeric_limits<double>::quiet_NaN());
            }),
            width);
}

/// An expert multiplied with its neighbour's weights, or summed over its neighbour's rows.
TEST_P(Checked, TheWrongExpert) {
  GroupedRun run = right_result();
  GroupedRun other = right_result();
  if (is_wgrad()) {
    other.offs = {9, 9, 38, 40};  // the last row of expert 2 went to expert 3
  } else {
    for (std::int64_t row = 0; row < other.b.rows(); ++row) {
      for (std::int64_t column = 0; column < other.b.columns(); ++column) {
        other.b.set(2, row, column, run.b.get(1, row, column));
      }
    }
  }
  execute(other, kOracle);
  std::swap(run.d, other.d);
  const CheckResult result = check(run);
  EXPECT_GT(result.mismatches, 250);
  ASSERT_TRUE(result.first.has_value());
  EXPECT_EQ(result.first->expert, 2);
}

/// First and last row of every expert are always in the sample.
TEST_P(CheckedRows, TheSampleHasFirstAndLastRows) {
  for (const std::int64_t row : {0, 8, 9, 38, 39}) {
    GroupedRun run = right_result();
    run.d.set(0, row, 7, 1000);
    EXPECT_EQ(check(run, {2, 64, 5}).mismatches, 1) << row;
  }
  GroupedRun run = right_result();
  EXPECT_EQ(check(run, {2, 64, 5}).elements, (2 + 2 + 1) * run.d.columns());
  EXPECT_EQ(check(run, {0, 0, 5}).elements, 0);
}

/// Only those rows of d have to be on the host.
TEST_P(CheckedRows, NoRowIsLookedAtButThoseThatWereNamed) {
  const CheckOptions some{3, 64, 5};
  GroupedRun run = right_result();
  const std::vector<std::int64_t> named = checked_rows(run.problem, run.offs, some);
  EXPECT_EQ(named.size(), 3U + 3U + 1U);
  const auto is_named = [&](std::int64_t row) {
    return std::find(named.begin(), named.end(), row) != named.end();
  };
  for (const std::int64_t row : {0, 8, 9, 38, 39}) EXPECT_TRUE(is_named(row)) << row;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t row = 0; row < run.d.rows(); ++row) {
    if (!is_named(row)) run.d.fill_rows(0, row, row + 1, nan);
  }
  EXPECT_EQ(check(run, some).mismatches, 0);
  for (const std::int64_t row : named) run.d.fill_rows(0, row, row + 1, nan);
  EXPECT_EQ(check(run, some).mismatches, std::ssize(named) * run.d.columns());
  EXPECT_EQ(std::ssize(checked_rows(run.problem, run.offs, kAll)), 40);
}

TEST_P(CheckedWeights, TheSampleOfWeightGradientsHasEveryExpert) {
  for (std::int64_t expert = 0; expert < 4; ++expert) {
    GroupedRun run = right_result();
    run.d.fill_rows(expert, 0, run.d.rows(), 1000);
    const CheckResult result = check(run, {4, 16, 9});
    EXPECT_EQ(result.elements, 4 * 16);
    EXPECT_EQ(result.mismatches, 16) << expert;
  }
}

/// An empty expert's dw must be zero exactly.
TEST_P(CheckedWeights, AnEmptyExpertThatIsNotZero) {
  GroupedRun run = right_result();
  run.d.set(1, 3, 4, 1e-38);
  EXPECT_EQ(check(run).mismatches, 1);
  run.d.set(1, 3, 4, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(check(run).mismatches, 1);
}

INSTANTIATE_TEST_SUITE_P(All, Checked,
                         ::testing::Combine(::testing::ValuesIn(kAllPasses),
                                            ::testing::ValuesIn(kAllStorages),
                                            ::testing::Values(0, 1, 2)));
INSTANTIATE_TEST_SUITE_P(All, CheckedRows,
                         ::testing::Combine(::testing::Values(Pass::forward, Pass::dgrad),
                                            ::testing::ValuesIn(kAllStorages),
                                            ::testing::Values(0, 1, 2)));
INSTANTIATE_TEST_SUITE_P(All, CheckedWeights,
                         ::testing::Combine(::testing::Values(Pass::wgrad),
                                            ::testing::ValuesIn(kAllStorages),
                                            ::testing::Values(0, 1, 2)));
INSTANTIATE_TEST_SUITE_P(All, CheckedBf16,
                         ::testing::Combine(::testing::ValuesIn(kAllPasses),
                                            ::testing::ValuesIn(kAllStorages),
                                            ::testing::Values(0)));

TEST(CheckGroupedGemm, AccumulatingNeedsTheOldContent) {
  GroupedRun run(make_problem(Pass::wgrad, WeightStorage::enk, kBf16ToF32, 2, 10, 16, 24),
                 {10, 10});
  run.problem.accumulate = true;
  fill_random(run, 2);
  run.d.fill(3);
  GroupedRun old(run.problem, {10, 10});
  old.d.fill(3);
  execute(run, kOracle);
  EXPECT_EQ(check_grouped_gemm(run.problem, run.args(), kAll, old.d.view()).mismatches, 0);
  expect_error(ErrorCode::invalid_argument, {"d_before"},
               [&] { check_grouped_gemm(run.problem, run.args(), kAll); });
  old.d.fill(4);  // one that was not added, and an empty expert that changed
  const CheckResult result = check_grouped_gemm(run.problem, run.args(), kAll, old.d.view());
  EXPECT_EQ(result.mismatches, 2 * 16 * 24);
}

TEST(CheckGroupedGemm, LooksOnlyAtValidSegments) {
  GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, kBf16, 4, 40, 16, 24),
                 {10, 5, 99, 40});
  fill_random(run, 3);  // expert 0 has rows; all others touch a wrong offset
  execute(run, kOracle);
  const CheckResult result = check_grouped_gemm(run.problem, run.args(), kAll);
  EXPECT_EQ(result.elements, 10 * 16);
  EXPECT_EQ(result.mismatches, 0);
}

TEST(CheckGroupedGemm, NothingCheckedIsNotAllWell) {
  GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, kBf16, 2, 40, 16, 24), {0, 0});
  fill_random(run, 3);
  EXPECT_EQ(check_grouped_gemm(run.problem, run.args(), kAll).elements, 0);
}

TEST(CheckGroupedGemm, Refusals) {
  GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, kBf16, 2, 40, 16, 24), {10, 40});
  fill_random(run, 3);
  const auto refuse = [&](std::initializer_list<std::string_view> parts,
                          const std::function<void(GroupedGemmArgs&)>& spoil) {
    GroupedGemmArgs args = run.args();
    spoil(args);
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { check_grouped_gemm(run.problem, args, kAll); });
  };
  const Device gpu{DeviceKind::cuda, 0};
  refuse({"a", "cuda:0"}, [&](auto& args) { args.a.qdata.device = gpu; });
  refuse({"d", "cuda:0"}, [&](auto& args) { args.d.device = gpu; });
  refuse({"b"}, [&](auto& args) { args.b.qdata.shape[1] = 8; });
  refuse({"offs"}, [&](auto& args) { args.offs.shape[0] = 3; });
}

TEST(CheckedRowsOf, RefusalsAndWrongOffsets) {
  GroupedGemmProblem problem =
      make_problem(Pass::forward, WeightStorage::enk, kBf16, 4, 40, 16, 24);
  const std::vector<std::int32_t> wrong = {2, 1, 99, 40};
  EXPECT_EQ(checked_rows(problem, wrong, kAll), (std::vector<std::int64_t>{0, 1}));
  expect_error(ErrorCode::invalid_argument, {"offs", "4", "got 3"},
               [&] { checked_rows(problem, std::span(wrong).first(3)); });
  problem.pass = Pass::wgrad;
  expect_error(ErrorCode::invalid_argument, {"pass", "wgrad"},
               [&] { checked_rows(problem, wrong); });
}

}  // namespace
}  // namespace moesaic::testing
