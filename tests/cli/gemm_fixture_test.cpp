// SPDX-License-Identifier: Apache-2.0
// The operands of `verify` are as hostile as they claim, and what it expects is right by hand.
#include "tools/moesaic/gemm_fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tools/moesaic/case_table.hpp"
#include "tools/moesaic/operands.hpp"

namespace moesaic::cli {
namespace {

GroupedGemmProblem problem(Pass pass) {
  GroupedGemmProblem result;
  result.pass = pass;
  result.format = Format::f32;
  result.d_dtype = DType::f32;
  result.num_experts = 2;
  result.max_rows = 4;
  result.n = 8;
  result.k = 8;
  return result;
}

TEST(GemmFixture, TailRowsAndWeightsOfEmptyExpertsAreNan) {
  GemmFixture fixture(problem(Pass::forward), {0, 3}, Contents::integers, 1);
  EXPECT_TRUE(std::isnan(fixture.a().get(3, 0)));
  EXPECT_FALSE(std::isnan(fixture.a().get(2, 7)));
  EXPECT_TRUE(std::isnan(fixture.b().get(0, 0)));
  EXPECT_FALSE(std::isnan(fixture.b().get(8, 0)));
  GemmFixture wgrad(problem(Pass::wgrad), {0, 3}, Contents::integers, 1);
  EXPECT_TRUE(std::isnan(wgrad.b().get(3, 0)));
}

TEST(GemmFixture, NoRowOfAValidSegmentIsNan) {
  // The last offset falls behind the first expert's rows, which are computed all the same.
  GemmFixture fixture(problem(Pass::forward), {3, 1}, Contents::integers, 1);
  EXPECT_EQ(fixture.tail_begin(), 3);
  for (std::int64_t row = 0; row < fixture.a().rows(); ++row) {
    EXPECT_EQ(std::isnan(fixture.a().get(row, 0)), row >= 3) << row;
  }
}

TEST(GemmFixture, ExpectedSumsByHand) {
  GroupedGemmProblem dgrad = problem(Pass::dgrad);
  dgrad.weights = WeightStorage::ekn;
  for (const GroupedGemmProblem& one : {problem(Pass::forward), dgrad}) {
    GemmFixture fixture(one, {1, 3}, Contents::integers, 9);
    const HostTensor want = fixture.expected();
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t expert = row < 1 ? 0 : 1;
      for (std::int64_t column = 0; column < 8; ++column) {
        float sum = 0;
        for (std::int64_t i = 0; i < 8; ++i) {
          // forward, [E, N, K]: w[column][i]; dgrad, [E, K, N]: w[column][i] as well.
          sum += fixture.a().get(row, i) * fixture.b().get(expert * 8 + column, i);
        }
        EXPECT_EQ(want.get(row, column), sum);
      }
    }
    EXPECT_TRUE(is_poison(want.row_data(3), DType::f32));
  }
}

TEST(GemmFixture, ExpectedWeightGradientByHand) {
  for (const bool accumulate : {false, true}) {
    GroupedGemmProblem wgrad = problem(Pass::wgrad);
    wgrad.accumulate = accumulate;
    GemmFixture fixture(wgrad, {0, 3}, Contents::integers, 4);
    const HostTensor want = fixture.expected();
    for (std::int64_t n = 0; n < 8; ++n) {
      for (std::int64_t k = 0; k < 8; ++k) {
        float sum = 0;
        for (std::int64_t row = 0; row < 3; ++row) {
          sum += fixture.a().get(row, n) * fixture.b().get(row, k);
        }
        const auto old = [&](std::int64_t row) {
          return accumulate ? fixture.before().get(row, k) : 0.0F;
        };
        EXPECT_EQ(want.get(n, k), old(n));
        EXPECT_EQ(want.get(8 + n, k), old(8 + n) + sum);
      }
    }
  }
}

TEST(GemmFixture, ZeroTailIsExpectedOnRequest) {
  GroupedGemmProblem zeroed = problem(Pass::forward);
  zeroed.tail = Tail::zero;
  GemmFixture fixture(zeroed, {1, 3}, Contents::integers, 1);
  EXPECT_EQ(fixture.expected().get(3, 5), 0);
}

TEST(CaseTable, HistogramsFitTheirBuffersAndCoverTheEdges) {
  bool one_expert = false, past_1024 = false, slack = false, empty = false;
  for (const Histogram& one : histograms()) {
    EXPECT_LE(end_offsets(one.counts).back(), one.capacity) << one.name;
    EXPECT_EQ(one.n % 8, 0);
    EXPECT_EQ(one.k % 8, 0);
    EXPECT_EQ(&histogram(one.name), &one);
    one_expert |= one.counts.size() == 1;
    past_1024 |= one.counts.size() == 1025;
    slack |= one.slack();
    empty |= end_offsets(one.counts).back() == 0;
  }
  EXPECT_TRUE(one_expert && past_1024 && slack && empty);
}

TEST(CaseTable, BadOffsetsAreBadWhereTheySay) {
  for (const BadOffsets& bad : bad_offsets()) {
    for (int e = 0; e <= bad.expert; ++e) {
      const auto at = static_cast<std::size_t>(e);
      const std::int64_t begin = e == 0 ? 0 : bad.offs[at - 1];
      const std::int64_t end = bad.offs[at];
      const bool inside = 0 <= end && end <= kBadOffsetsCapacity;
      const bool good = inside && begin <= end;
      EXPECT_EQ(good, e < bad.expert) << bad.name << " expert " << e;
      if (e == bad.expert) {
        EXPECT_EQ(inside, bad.not_monotonic) << bad.name;
      }
    }
  }
}

}  // namespace
}  // namespace moesaic::cli
