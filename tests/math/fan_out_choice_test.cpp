// SPDX-License-Identifier: Apache-2.0
#include "math/fan_out_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace moesaic::math {
namespace {

constexpr DispatchFacts facts(std::int32_t ranks, std::int32_t experts, std::int32_t topk,
                              std::int64_t tokens, std::int64_t row_bytes = 8192) {
  return {ranks, experts, topk, tokens, row_bytes};
}

static_assert(expected_other_ranks(facts(2, 64, 64, 1)) == 1);
static_assert(expected_other_ranks(facts(4, 4, 9, 1)) == 3);  // experts that must repeat
static_assert(expected_other_ranks(facts(1, 8, 8, 1)) == 0);
static_assert(expected_other_ranks(facts(1024, 65'536, 256, 1)) < 256);

TEST(FanOutChoice, ReachesAsManyRanksAsSetsOfExpertsDo) {
  for (const std::int32_t ranks : {1, 2, 3, 4, 6}) {
    const std::int32_t experts = 12, local = experts / ranks;
    for (std::int32_t topk = 1; topk <= experts; ++topk) {
      double sets = 0, reached = 0;
      for (std::uint32_t set = 0; set < 1U << experts; ++set) {
        if (std::popcount(set) != topk) continue;
        ++sets;
        for (std::int32_t rank = 1; rank < ranks; ++rank) {
          const std::uint32_t of_rank = ((1U << local) - 1) << (rank * local);
          reached += (set & of_rank) != 0 ? 1 : 0;
        }
      }
      EXPECT_NEAR(expected_other_ranks(facts(ranks, experts, topk, 1)), reached / sets, 1e-12)
          << ranks << " ranks, topk " << topk;
    }
  }
}

/// Times of direct PUT less those of fan-out, 64 experts, topk 8, rows of 8 KiB, uniform: NB-0008.
TEST(FanOutChoice, IsNearWhatWasMeasured) {
  struct Measured {
    std::int32_t ranks;
    std::int64_t tokens;
    double microseconds;
  };
  for (const Measured& one :
       {Measured{2, 8192, 746.2 - 282.6}, Measured{4, 8, 13.4 - 27.0}, Measured{4, 64, 20.1 - 28.5},
        Measured{4, 512, 82.4 - 59.9}, Measured{4, 8192, 1137.9 - 639.8}}) {
    const double expected = fan_out_saves_microseconds(facts(one.ranks, 64, 8, one.tokens));
    EXPECT_EQ(expected > 0, one.microseconds > 0) << one.ranks << " ranks, T = " << one.tokens;
    EXPECT_NEAR(expected, one.microseconds, std::max(7.0, 0.06 * std::abs(one.microseconds)))
        << one.ranks << " ranks, T = " << one.tokens;
  }
}

TEST(FanOutChoice, NeverWhereNoRowIsSaved) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  for (const std::int32_t ranks : {1, 2, 8, 1024}) {
    for (const std::int32_t topk : {1, 2, 8}) {
      // One slot, one rank, or one expert on each rank: each row is its token's only one there.
      EXPECT_LT(fan_out_saves_microseconds(facts(ranks, 8 * ranks, 1, kMany)), 0);
      EXPECT_LT(fan_out_saves_microseconds(facts(1, 8, topk, kMany)), 0);
      if (topk <= ranks) {
        EXPECT_LT(fan_out_saves_microseconds(facts(ranks, ranks, topk, kMany)), 0)
            << ranks << " ranks, topk " << topk;
      }
    }
  }
  EXPECT_LT(fan_out_saves_microseconds(facts(2, 64, 8, 0)), 0);
}

TEST(FanOutChoice, MoreBytesNeverTurnItBack) {
  for (const std::int32_t ranks : {2, 3, 4, 8, 16, 64}) {
    for (const std::int32_t topk : {2, 4, 6, 8, 16}) {
      for (const std::int64_t row_bytes : {16, 2048, 8192, 28'672}) {
        bool chosen = false;
        for (std::int64_t tokens = 1; tokens <= 1 << 20; tokens *= 2) {
          const bool now =
              fan_out_saves_microseconds(facts(ranks, 64 * 3, topk, tokens, row_bytes)) > 0;
          EXPECT_TRUE(now || !chosen) << ranks << ' ' << topk << ' ' << tokens << ' ' << row_bytes;
          chosen = now;
          // What counts is their product.
          EXPECT_EQ(now, fan_out_saves_microseconds(
                             facts(ranks, 64 * 3, topk, tokens * row_bytes, 1)) > 0);
        }
      }
    }
  }
}

TEST(FanOutChoice, BeginsWhereTheGuideSays) {
  const auto first = [](std::int32_t ranks) {
    std::int64_t tokens = 1;
    while (fan_out_saves_microseconds(facts(ranks, 64, 8, tokens)) <= 0) ++tokens;
    return tokens;
  };
  EXPECT_EQ(first(2), 240);
  EXPECT_EQ(first(4), 237);
  EXPECT_EQ(first(8), 415);
}

}  // namespace
}  // namespace moesaic::math
