// SPDX-License-Identifier: Apache-2.0
// Large tiles of the last round as two halves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "math/checked_span.hpp"
#include "math/tile_scheduler.hpp"

namespace moesaic::math {
namespace {

TEST(HalvedTiles, TheLastRoundIsARemainderInAllBits) {
  for (const std::int64_t tiles : {kInt64Max / 2, std::int64_t{1} << 32,
                                   (std::int64_t{1} << 32) - 1, (std::int64_t{1} << 40) + 77}) {
    for (const std::int64_t workers : {1, 2, 66, 132, 65'535}) {
      EXPECT_EQ(last_round(tiles, workers), tiles % workers) << tiles << " over " << workers;
    }
  }
}

TEST(HalvedTiles, ExactlyTheLastRoundAndOnlyWhereEveryHalfHasAWorkerOfItsOwn) {
  for (std::int64_t workers = 1; workers <= 140; ++workers) {
    std::int64_t last_round = 0;  // of `tiles`; 0: it is full, or there is none
    for (std::int64_t tiles = 0; tiles <= 600; ++tiles) {
      const HalvedTiles large = halve_last_round(tiles, workers);
      const bool cut = last_round > 0 && last_round * 2 <= workers;
      ASSERT_EQ(large, (HalvedTiles{cut ? tiles - last_round : tiles, cut ? last_round : 0}))
          << tiles << " tiles of " << workers;
      last_round = (last_round + 1) % workers;
    }
  }
  EXPECT_EQ(halve_last_round(66, 132), (HalvedTiles{0, 66}));
  EXPECT_EQ(halve_last_round(67, 132), (HalvedTiles{67, 0}));
  EXPECT_EQ(halve_last_round(7, 1), (HalvedTiles{7, 0}));
}

TEST(HalvedTiles, EveryIndexIsAPlaceOfItsOwnAndEveryPlaceAnIndex) {
  constexpr std::int64_t kFollowing = 5;  // tiles of few rows
  for (std::int64_t workers = 1; workers <= 33; ++workers) {
    for (std::int64_t tiles = 0; tiles <= 80; ++tiles) {
      const RowTileSequence sequence = large_sequence(tiles, {1}, workers);
      const HalvedTiles& large = sequence.large;
      std::int64_t index = 0;
      for (std::int64_t tile = 0; tile < tiles + kFollowing; ++tile) {
        const bool few = tile >= tiles;
        const bool cut = !few && tile >= tiles - large.halved;
        for (int side = cut ? 0 : -1; side < (cut ? 2 : 0); ++side) {
          ASSERT_EQ(place_of(large, index), (TilePlace{tile, side}))
              << index << ": " << tiles << " tiles of " << workers;
          ASSERT_EQ(place_of(sequence, index),
                    few ? (RowTilePlace{RowTileKind::few, tile - tiles, -1})
                        : (RowTilePlace{RowTileKind::large, tile, side}))
              << index << ": " << tiles << " tiles of " << workers;
          ++index;
        }
      }
      ASSERT_EQ(index, large.whole + 2 * large.halved + kFollowing);
    }
  }
}

TEST(HalvedTiles, HalvesCoverTheColumnsOfTheirTileExactlyOnce) {
  const std::vector<std::int32_t> ends = {3};
  const CheckedSpan offs(ends);
  int absent = 0;
  for (const std::int64_t tile_n : {2, 6, 8, 256}) {
    for (std::int64_t n = 1; n <= 2 * tile_n + 1; ++n) {
      const auto grid = row_tile_grid(1, 3, n, {4, tile_n, 8});
      const std::int64_t tiles = (n + tile_n - 1) / tile_n;
      std::vector<int> covered(static_cast<std::size_t>(n));
      RowTileCursor whole(offs, grid, 1, 0);
      RowTileCursor cursor(offs, grid, 2 * tiles, 0);
      for (std::int64_t index = 0; index < 2 * tiles; cursor.seek(++index)) {
        ASSERT_TRUE(cursor.valid());
        const RowTile<> half = cursor.tile();
        whole.seek(index / 2);
        RowTile<> like_whole = half;  // all but what makes it a half
        like_whole.column_begin = whole.tile().column_begin;
        like_whole.columns = whole.tile().columns;
        like_whole.half = false;
        ASSERT_EQ(like_whole, whole.tile());
        ASSERT_TRUE(half.half);
        ASSERT_EQ(half.column_begin % (tile_n / 2), 0);
        ASSERT_LE(half.columns, tile_n / 2);
        absent += half.columns == 0 ? 1 : 0;
        for (std::int64_t i = 0; i < half.columns; ++i) {
          ++covered.at(static_cast<std::size_t>(half.column_begin + i));
        }
      }
      ASSERT_FALSE(cursor.valid());
      ASSERT_EQ(std::count(covered.begin(), covered.end(), 1), n) << "N " << n;
    }
  }
  EXPECT_GT(absent, 100) << "right halves past N";
}

}  // namespace
}  // namespace moesaic::math
