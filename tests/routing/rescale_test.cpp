// SPDX-License-Identifier: Apache-2.0
// Rescaling and expert-parallel shares: exact totals, closeness, order, and what is refused.
#include <algorithm>
#include <random>

#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

Record record_of(Counts counts) {
  Record record;
  record.counts = std::move(counts);
  return record;
}

TEST(Rescale, LargestRemainderWithTiesToTheLowestExpert) {
  EXPECT_EQ(rescale(record_of({1, 1, 1}), 4).counts, (Counts{2, 1, 1}));
  EXPECT_EQ(rescale(record_of({1, 1, 1}), 2).counts, (Counts{1, 1, 0}));
  EXPECT_EQ(rescale(record_of({6, 3, 1}), 5).counts,
            (Counts{3, 2, 0}));  // quotas 3, 1.5, 0.5: a tie
  EXPECT_EQ(rescale(record_of({0, 7, 0}), 3).counts, (Counts{0, 3, 0}));
  EXPECT_EQ(rescale(record_of({5, 5}), 0).counts, (Counts{0, 0}));
}

TEST(Rescale, LabelAndTokensFollow) {
  Record record = record_of({4, 2});
  record.top_k = 2;
  record.tokens = 3;
  record.invalid_slots = 5;
  record.label = "note";
  const Record out = rescale(record, 12);
  EXPECT_TRUE(says(out.label, "note; rescaled to 12 rows from 6"));
  EXPECT_EQ(out.tokens, 6);
  EXPECT_EQ(out.invalid_slots, 0);
  EXPECT_EQ(rescale(record, 13).tokens, -1);
}

TEST(Rescale, ZeroStaysZeroAndNegativeIsRefused) {
  EXPECT_EQ(rescale(record_of({0, 0}), 100).counts, (Counts{0, 0}));
  EXPECT_TRUE(says(refusal_of([] { (void)rescale(record_of({1}), -1); }), "-1"));
}

TEST(Rescale, ExactAtTheEndOfTheRange) {
  const std::int64_t half = INT64_MAX / 2;
  const Record out = rescale(record_of({half, 1, half}), INT64_MAX);
  EXPECT_EQ(out.rows(), INT64_MAX);
  EXPECT_EQ(out.counts, (Counts{half, 1, half}));  // INT64_MAX is odd: the counts sum to it already
}

TEST(Rescale, EveryShareIsWithinOneRowOfItsQuotaAndOrderIsKept) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    Counts counts(1 + random() % 300);
    for (auto& count : counts)
      count = random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 100000);
    const std::int64_t old_rows = record_of(counts).rows();
    if (old_rows == 0) continue;
    const auto rows = static_cast<std::int64_t>(random() % 100000);
    const Record out = rescale(record_of(counts), rows);
    ASSERT_EQ(out.rows(), rows);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::int64_t floor = counts[i] * rows / old_rows;  // below 10^10: no overflow
      ASSERT_GE(out.counts[i], floor);
      ASSERT_LE(out.counts[i], counts[i] * rows % old_rows == 0 ? floor : floor + 1);
      for (std::size_t j = 0; j < i; ++j) {
        if (counts[j] >= counts[i]) {
          ASSERT_GE(out.counts[j], out.counts[i]);
        }
      }
    }
  }
}

TEST(RankShare, CoversEveryExpertOnce) {
  Record record = record_of({10, 0, 3, 7, 1, 1, 1, 1});
  record.tokens = 12;
  const Counts sums = {10, 10, 2, 2};
  Counts joined;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const Record share = rank_share(record, 4, rank);
    EXPECT_EQ(share.rank, rank);
    EXPECT_EQ(share.rows(), sums[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(share.tokens, -1);
    joined.insert(joined.end(), share.counts.begin(), share.counts.end());
  }
  EXPECT_EQ(joined, record.counts);
  EXPECT_TRUE(says(rank_share(record, 4, 1).label, "experts 2 to 3 of 8"));
}

TEST(RankShare, IndivisibleExpertsListWhatWorks) {
  const std::string message = refusal_of([] { (void)rank_share(record_of(Counts(60, 1)), 8, 0); });
  EXPECT_TRUE(says(message, "ep is 8, which does not divide 60 experts"));
  EXPECT_TRUE(says(message, "1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60"));
  EXPECT_TRUE(says(message, "4, 12, 20, ..."));
  const std::string redundant = refusal_of([] { require_even_share(256, 7, 8); });
  EXPECT_TRUE(says(redundant, "256 + 7 redundant = 263 experts"));
  EXPECT_TRUE(says(redundant, "redundant experts that work: 0, 8, 16, ..."));
  EXPECT_EQ(refusal_of([] { require_even_share(256, 8, 8); }), "");
}

TEST(RankShare, RankAndSizeAreChecked) {
  const Record record = record_of({1, 2});
  EXPECT_TRUE(
      says(refusal_of([&] { (void)rank_share(record, 2, 2); }), "rank is 2, expected 0 to 1"));
  EXPECT_TRUE(says(refusal_of([&] { (void)rank_share(record, 2, -1); }), "rank is -1"));
  EXPECT_TRUE(says(refusal_of([&] { (void)rank_share(record, 0, 0); }), "ep is 0"));
}

}  // namespace
}  // namespace moesaic::routing::testing
