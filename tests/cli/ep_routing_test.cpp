// SPDX-License-Identifier: Apache-2.0
#include "tools/moesaic/ep_routing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/expect_error.hpp"

namespace moesaic::cli {
namespace {

TEST(EpRouting, EveryTokenHasDistinctExperts) {
  for (const char* text : {"uniform", "zipf:1", "zipf:4"}) {
    const auto ids = ep_expert_ids(parse_ep_routing(text), 50, 4, 6, 1, 0);
    ASSERT_EQ(ids.size(), 200U);
    for (std::size_t token = 0; token < 50; ++token) {
      const std::set<std::int32_t> own(ids.begin() + static_cast<std::ptrdiff_t>(4 * token),
                                       ids.begin() + static_cast<std::ptrdiff_t>(4 * token + 4));
      EXPECT_EQ(own.size(), 4U);
      EXPECT_GE(*own.begin(), 0);
      EXPECT_LT(*own.rbegin(), 6);
    }
  }
}

TEST(EpRouting, WeightsAreThoseAskedFor) {
  constexpr std::int64_t kTokens = 40'000;
  const auto share = [](const char* text, std::int32_t expert) {
    const auto ids = ep_expert_ids(parse_ep_routing(text), kTokens, 1, 4, 7, 3);
    return static_cast<double>(std::count(ids.begin(), ids.end(), expert)) / kTokens;
  };
  for (std::int32_t expert = 0; expert < 4; ++expert) {
    EXPECT_NEAR(share("uniform", expert), 0.25, 0.01);
    EXPECT_NEAR(share("zipf:1", expert), 12.0 / 25.0 / (expert + 1), 0.01);
  }
}

TEST(EpRouting, RanksAndSeedsDifferAndRepeat) {
  const EpRouting routing;
  const auto ids = [&](std::uint64_t seed, int rank) {
    return ep_expert_ids(routing, 64, 2, 64, seed, rank);
  };
  EXPECT_EQ(ids(1, 0), ids(1, 0));
  EXPECT_NE(ids(1, 0), ids(1, 1));
  EXPECT_NE(ids(1, 0), ids(2, 0));
}

TEST(EpRouting, TrafficIsOfTheBusiestRank) {
  // Two tokens of three slots on each of three ranks.
  const EpTraffic traffic =
      ep_traffic({{1, 1, 0, 2, 1, 1}, {1, 1, 1, -1, 1, 0}, {1, -1, 1, 2, 1, 1}}, 3);
  EXPECT_EQ(traffic.routes, 16);
  EXPECT_EQ(traffic.dropped_routes, 2);
  EXPECT_EQ(traffic.remote_out_rows, 5);    // of rank 0
  EXPECT_EQ(traffic.remote_out_tokens, 3);  // rank 1 twice, rank 2 once
  EXPECT_EQ(traffic.remote_in_rows, 8);     // of rank 1
  EXPECT_EQ(traffic.remote_in_tokens, 4);
}

TEST(EpRouting, OtherWordsAreRefused) {
  for (const char* text : {"", "zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:1x", "one-hot"}) {
    testing::expect_error(ErrorCode::invalid_argument, {"--routing"},
                          [&] { static_cast<void>(parse_ep_routing(text)); });
  }
}

}  // namespace
}  // namespace moesaic::cli
