// SPDX-License-Identifier: Apache-2.0
// Seeded operands: distribution, reproducibility, independence of strides.
#include "tools/moesaic/operands.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "moesaic/error.hpp"
#include "tools/moesaic/stats.hpp"

namespace moesaic::cli {
namespace {

TEST(FillNormal, HasTheMeanDeviationAndTailsOfTheNormal) {
  HostTensor tensor(DType::f32, {1000, 1000});
  fill_normal(tensor, 0.02, 3, OperandStream::weights);
  double sum = 0, squares = 0, fourth = 0;
  std::int64_t within = 0;
  for (std::int64_t row = 0; row < 1000; ++row) {
    for (std::int64_t i = 0; i < 1000; ++i) {
      const double z = tensor.get(row, i) / 0.02;
      sum += z;
      squares += z * z;
      fourth += z * z * z * z;
      within += std::abs(z) < 1 ? 1 : 0;
    }
  }
  EXPECT_NEAR(sum / 1e6, 0, 0.005);
  EXPECT_NEAR(squares / 1e6, 1, 0.01);
  EXPECT_NEAR(fourth / 1e6, 3, 0.05);
  EXPECT_NEAR(static_cast<double>(within) / 1e6, 0.6827, 0.003);
}

TEST(FillNormal, DependsOnSeedAndStreamAndNotOnStrides) {
  HostTensor dense(DType::bf16, {3, 4, 10}), gaps(DType::bf16, {3, 4, 10}, {24, 512, 16}),
      other(DType::bf16, {3, 4, 10}), stream(DType::bf16, {3, 4, 10});
  fill_normal(dense, 1, 1, OperandStream::x);
  fill_normal(gaps, 1, 1, OperandStream::x);
  fill_normal(other, 1, 2, OperandStream::x);
  fill_normal(stream, 1, 1, OperandStream::dy);
  int differs_by_seed = 0, differs_by_stream = 0;
  for (std::int64_t row = 0; row < 12; ++row) {
    for (std::int64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(dense.get(row, i), gaps.get(row, i));
      differs_by_seed += dense.get(row, i) != other.get(row, i) ? 1 : 0;
      differs_by_stream += dense.get(row, i) != stream.get(row, i) ? 1 : 0;
    }
  }
  EXPECT_GT(differs_by_seed, 100);
  EXPECT_GT(differs_by_stream, 100);
}

TEST(FillIntegers, HoldsAllThreeAndNothingElse) {
  HostTensor tensor(DType::bf16, {30, 30});
  fill_integers(tensor, 1, OperandStream::x);
  int seen[3] = {0, 0, 0};
  for (std::int64_t row = 0; row < 30; ++row) {
    for (std::int64_t i = 0; i < 30; ++i) {
      const float value = tensor.get(row, i);
      ASSERT_TRUE(value == -1 || value == 0 || value == 1);
      ++seen[static_cast<int>(value) + 1];
    }
  }
  for (const int count : seen) EXPECT_GT(count, 200);
}

TEST(EndOffsets, AddsUpAndRefusesPastInt32) {
  EXPECT_EQ(end_offsets(std::vector<std::int64_t>{1, 0, 4}), (std::vector<std::int32_t>{1, 1, 5}));
  EXPECT_EQ(end_offsets(std::vector<std::int64_t>{2147483647}).back(), 2147483647);
  EXPECT_THROW(end_offsets(std::vector<std::int64_t>{2147483647, 1}), Error);
  EXPECT_THROW(end_offsets(std::vector<std::int64_t>{INT64_MAX, INT64_MAX}), Error);
}

TEST(Stats, MedianOfOddAndEven) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_THROW(median({}), Error);
}

TEST(Stats, QuantilesByHand) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_EQ(quantile({10, 20}, 0.05), 10.5);
  EXPECT_EQ(quantile({7}, 0.95), 7);
  EXPECT_THROW(quantile({}, 0.5), Error);
}

TEST(Stats, TakesFifteenShortSamples) {
  int calls = 0;
  EXPECT_EQ(time_samples([&] { ++calls; }).size(), 15U);
  EXPECT_EQ(calls, 15);
}

TEST(Stats, TakesFiveLongSamples) {
  const auto work = [] { std::this_thread::sleep_for(std::chrono::milliseconds(25)); };
  EXPECT_EQ(time_samples(work).size(), 5U);
}

}  // namespace
}  // namespace moesaic::cli
