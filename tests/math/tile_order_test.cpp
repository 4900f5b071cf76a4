// SPDX-License-Identifier: Apache-2.0
#include "math/tile_order.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace moesaic::math {
namespace {

using Coord = TileCoord<std::int64_t>;

// 5 × 3 tiles in groups of two tile rows, by hand:  0 2 4 | 1 3 5 / 10 8 6 | 11 9 7 / 12 13 14.
constexpr std::int64_t kByHand[5][3] = {{0, 2, 4}, {1, 3, 5}, {10, 8, 6}, {11, 9, 7}, {12, 13, 14}};
constexpr bool matches_by_hand() {
  for (std::int64_t m = 0; m < 5; ++m) {
    for (std::int64_t n = 0; n < 3; ++n) {
      if (tile_index<std::int64_t>({m, n}, 5, 3, 2) != kByHand[m][n]) return false;
      if (!(tile_at<std::int64_t>(kByHand[m][n], 5, 3, 2) == Coord{m, n})) return false;
    }
  }
  return true;
}
static_assert(matches_by_hand());
static_assert(tile_at<std::int32_t>(5, 1, 9, 8) == TileCoord<std::int32_t>{0, 5}, "one tile row");
// group_m · n_tiles would overflow int32 if group_m were not clamped.
static_assert(tile_at<std::int32_t>(3, 2, 2, 2'000'000'000) == TileCoord<std::int32_t>{1, 1});
static_assert(tile_at<std::int64_t>((std::int64_t{1} << 40) - 1, 1 << 20, 1 << 20, 8) ==
                  Coord{(1 << 20) - 1, 0},
              "more than 2^31 tiles; the last group is odd, so it ends at column 0");

TEST(TileOrder, IsABijectionForAnySize) {
  for (std::int32_t m_tiles = 1; m_tiles <= 20; ++m_tiles) {
    for (std::int32_t n_tiles = 1; n_tiles <= 11; ++n_tiles) {
      for (std::int32_t group_m = 1; group_m <= 22; ++group_m) {
        std::vector<int> seen(static_cast<std::size_t>(m_tiles) * n_tiles, 0);
        for (std::int32_t i = 0; i < m_tiles * n_tiles; ++i) {
          const auto at = tile_at(i, m_tiles, n_tiles, group_m);
          ASSERT_TRUE(at.m_tile >= 0 && at.m_tile < m_tiles && at.n_tile >= 0 &&
                      at.n_tile < n_tiles);
          ASSERT_EQ(tile_index(at, m_tiles, n_tiles, group_m), i);
          ++seen[static_cast<std::size_t>(at.m_tile) * n_tiles + at.n_tile];
          const auto wide = tile_at<std::int64_t>(i, m_tiles, n_tiles, group_m);
          ASSERT_TRUE(wide.m_tile == at.m_tile && wide.n_tile == at.n_tile) << "int32 and int64";
        }
        for (const int count : seen) ASSERT_EQ(count, 1);
      }
    }
  }
}

TEST(TileOrder, RunsDownAGroupThenSideways) {
  constexpr std::int64_t kMTiles = 11, kNTiles = 6, kGroup = 4;
  Coord before = tile_at<std::int64_t>(0, kMTiles, kNTiles, kGroup);
  for (std::int64_t i = 1; i < kMTiles * kNTiles; ++i) {
    const Coord at = tile_at<std::int64_t>(i, kMTiles, kNTiles, kGroup);
    const bool same_group = at.m_tile / kGroup == before.m_tile / kGroup;
    if (!same_group) {
      EXPECT_EQ(at.n_tile, before.n_tile)
          << "a new group starts in the column where the last one ended";
    } else if (at.n_tile == before.n_tile) {
      EXPECT_EQ(at.m_tile, before.m_tile + 1);
    } else {
      EXPECT_EQ(std::abs(at.n_tile - before.n_tile), 1);
      EXPECT_EQ(at.m_tile % kGroup, 0);
    }
    before = at;
  }
}

}  // namespace
}  // namespace moesaic::math
