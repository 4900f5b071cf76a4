// SPDX-License-Identifier: Apache-2.0
// Rank correlation with ties by hand, and a bootstrap that its seed decides.
#include "tools/moesaic/experiment/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "moesaic/error.hpp"

namespace moesaic::cli::experiment {
namespace {

using Values = std::vector<double>;

TEST(Statistics, RanksShareTies) {
  EXPECT_EQ(ranks(Values{30, 10, 20}), (Values{3, 1, 2}));
  EXPECT_EQ(ranks(Values{5, 5, 1, 5}), (Values{3, 3, 1, 3}));
  EXPECT_EQ(ranks(Values{}), Values{});
}

TEST(Statistics, SpearmanByHand) {
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3, 4}, Values{10, 20, 30, 1000}), 1);
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3, 4}, Values{4, 3, 2, 1}), -1);
  // Without ties: 1 - 6 sum(d^2) / (n (n^2 - 1)), d = 1, 1, 1, 1, 0.
  EXPECT_NEAR(spearman(Values{1, 2, 3, 4, 5}, Values{2, 1, 4, 3, 5}), 1 - 6.0 * 4 / (5 * 24),
              1e-12);
  // Ranks 1.5, 1.5, 3 against 1, 2, 3: 1.5 / sqrt(1.5 * 2).
  EXPECT_NEAR(spearman(Values{7, 7, 9}, Values{1, 2, 3}), 1.5 / std::sqrt(3.0), 1e-12);
}

TEST(Statistics, SpearmanThatCannotBe) {
  EXPECT_TRUE(std::isnan(spearman(Values{1}, Values{2})));
  EXPECT_TRUE(std::isnan(spearman(Values{1, 1, 1}, Values{1, 2, 3})));
  EXPECT_THROW((void)spearman(Values{1, 2}, Values{1}), Error);
}

double mean_of(const Values& values, std::span<const std::size_t> chosen) {
  double total = 0;
  for (const std::size_t index : chosen) total += values[index];
  return total / static_cast<double>(chosen.size());
}

TEST(Statistics, BootstrapFollowsItsSeed) {
  Values values;  // whose sums are all different
  for (int i = 1; i <= 12; ++i) values.push_back(std::sqrt(static_cast<double>(i)));
  const auto statistic = [&](std::span<const std::size_t> chosen) {
    return mean_of(values, chosen);
  };
  const Interval first = bootstrap(values.size(), 2000, 0.95, 7, statistic);
  const Interval again = bootstrap(values.size(), 2000, 0.95, 7, statistic);
  const Interval other = bootstrap(values.size(), 2000, 0.95, 8, statistic);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  EXPECT_TRUE(first.low != other.low || first.high != other.high);
  const double whole = mean(values);
  EXPECT_LT(first.low, whole);
  EXPECT_GT(first.high, whole);
}

TEST(Statistics, BootstrapOfAMeanHasItsStandardError) {
  // 0 and 1 in equal parts, n = 100: the mean's standard error is 0.05, and 95 % are within 1.96 of
  // it.
  Values values(100, 0);
  for (std::size_t i = 0; i < 50; ++i) values[i] = 1;
  const Interval interval =
      bootstrap(values.size(), 20000, 0.95, 1,
                [&](std::span<const std::size_t> chosen) { return mean_of(values, chosen); });
  EXPECT_NEAR(interval.low, 0.5 - 1.96 * 0.05, 0.01);
  EXPECT_NEAR(interval.high, 0.5 + 1.96 * 0.05, 0.01);
}

TEST(Statistics, BootstrapLeavesOutWhatIsNotANumber) {
  int calls = 0;
  const Interval interval = bootstrap(2, 10, 0.5, 1, [&](std::span<const std::size_t> /*chosen*/) {
    return ++calls % 2 == 0 ? 3.0 : std::nan("");
  });
  EXPECT_EQ(interval.low, 3);
  EXPECT_EQ(interval.high, 3);
  EXPECT_THROW((void)bootstrap(0, 10, 0.5, 1, {}), Error);
  EXPECT_THROW((void)bootstrap(2, 10, 1.5, 1, {}), Error);
}

}  // namespace
}  // namespace moesaic::cli::experiment
