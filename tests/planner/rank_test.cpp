// SPDX-License-Identifier: Apache-2.0
// Rank tails: contiguous shares, maximum beside sum, and balancedness over the right axis.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;

TEST(RankExperts, ContiguousShares) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(rank_experts(8, 4, rank).begin, 2 * rank);
    EXPECT_EQ(rank_experts(8, 4, rank).end, 2 * rank + 2);
  }
  EXPECT_EQ(rank_experts(60, 1, 0).end, 60);
}

TEST(RankExperts, RefusalsListWhatWorks) {
  try {
    rank_experts(60, 8, 0);
    FAIL() << "60 experts were split over 8 ranks";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("--ep"), std::string::npos) << what;
    EXPECT_NE(what.find("1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60"), std::string::npos) << what;
  }
  EXPECT_THROW(rank_experts(8, 0, 0), Error);
  EXPECT_THROW(rank_experts(8, 4, 4), Error);
  EXPECT_THROW(rank_experts(8, 4, -1), Error);
  EXPECT_THROW(rank_experts(0, 4, 0), Error);
}

TEST(RankReport, MaximumBesideSum) {
  const RankReport report = rank_report(Rows{10, 0, 3, 7, 1, 1, 1, 1}, 4, Rows{8, 32});
  ASSERT_EQ(report.ranks.size(), 4u);
  const Rows rows = {10, 10, 2, 2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(report.ranks[i].load.useful_rows, rows[i]);
  EXPECT_EQ(report.sum_rows, 24);
  EXPECT_EQ(report.max_rows, 10);
  EXPECT_EQ(report.max_rank, 0);
  EXPECT_DOUBLE_EQ(report.mean_rows, 6.0);
  EXPECT_DOUBLE_EQ(report.max_over_mean, 10.0 / 6.0);
  EXPECT_DOUBLE_EQ(report.balancedness, 0.6);
  // Tile 8: 16, 16, 16, 16. Tile 32: rank 0 has one active expert, so it is the fastest.
  ASSERT_EQ(report.tails.size(), 2u);
  EXPECT_EQ(report.tails[0].max_padded_rows, 16);
  EXPECT_EQ(report.tails[0].sum_padded_rows, 64);
  EXPECT_EQ(report.tails[1].max_padded_rows, 64);
  EXPECT_EQ(report.tails[1].max_rank, 1);
  EXPECT_EQ(report.tails[1].sum_padded_rows, 32 + 3 * 64);
  // Effective experts within the rank.
  EXPECT_DOUBLE_EQ(report.ranks[0].load.effective_experts, 1.0);
  EXPECT_DOUBLE_EQ(report.ranks[2].load.effective_experts, 2.0);
  EXPECT_TRUE(report.warnings.empty());
}

TEST(RankReport, SumOfRanksIsTheLayer) {
  Rows counts;
  for (std::int64_t expert = 0; expert < 64; ++expert) counts.push_back(expert * expert % 97);
  for (const std::int64_t ep : {1, 2, 8, 64}) {
    const RankReport report = rank_report(counts, ep, Rows{16});
    EXPECT_EQ(report.tails[0].sum_padded_rows, tile_ledger(counts, 16).padded_rows);
    EXPECT_GE(report.max_over_mean, 1.0);
  }
}

TEST(RankReport, IdleRanksAreNamed) {
  const RankReport report = rank_report(Rows{0, 0, 5, 0}, 2, Rows{8});
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_NE(report.warnings[0].find("rank 0 of 2 has no rows"), std::string::npos)
      << report.warnings[0];
  const RankReport none = rank_report(Rows(4, 0), 2, Rows{8});
  EXPECT_TRUE(none.warnings.empty());  // a dense layer is not an idle rank
  EXPECT_EQ(none.max_over_mean, 0.0);
  EXPECT_EQ(none.balancedness, 0.0);
}

TEST(MeanBalancedness, OverRanksNotOverLayers) {
  // vllm#36305: over layers these would be 0.6 and 1.0.
  EXPECT_DOUBLE_EQ(mean_balancedness(Rows{10, 10, 2, 2}, 2), 1.0);
  EXPECT_DOUBLE_EQ(mean_balancedness(Rows{10, 0, 10, 0}, 2), 0.5);
  EXPECT_DOUBLE_EQ(mean_balancedness(Rows{10, 0, 0, 0, 4, 4}, 2), 0.75);  // a dense layer between
  EXPECT_EQ(mean_balancedness(Rows{0, 0}, 2), 0.0);
  EXPECT_EQ(mean_balancedness({}, 2), 0.0);
  EXPECT_THROW(mean_balancedness(Rows{1, 2, 3}, 2), Error);
  EXPECT_THROW(mean_balancedness(Rows{1, 2}, 0), Error);
}

}  // namespace
}  // namespace moesaic::planner
