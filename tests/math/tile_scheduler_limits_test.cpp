// SPDX-License-Identifier: Apache-2.0
// Schedules past 2^31 tiles, and how many tile rows there can be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "math/checked_span.hpp"
#include "math/tile_bounds.hpp"
#include "math/tile_scheduler.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

// ---- Sizes past 2³¹
// --------------------------------------------------------------------------------------

TEST(TileScheduler, TileIndicesPastTwoToTheThirtyOne) {
  // 2²⁴ × 2¹¹ tiles for the first expert; one row less for the second.
  constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kHalf = std::int64_t{1} << 35;
  const std::vector<std::int32_t> ends = {1 << 30, kIntMax};
  const CheckedSpan offs(ends);
  const auto grid = row_tile_grid(2, std::int64_t{1} << 31, 1 << 17, {64, 64, 8});
  ASSERT_EQ(count_row_tiles(offs, grid), 2 * kHalf);
  const auto at = [&](std::int64_t index) { return RowTileCursor(offs, grid, 1, index).tile(); };
  EXPECT_EQ(at(kHalf - 1).expert, 0);
  EXPECT_EQ(at(kHalf - 1).row_begin, (std::int64_t{1} << 30) - 64);
  EXPECT_EQ(at(kHalf - 1).column_begin, 0)
      << "2^21 groups: the last one is odd and ends at the left";
  EXPECT_EQ(at(kHalf).expert, 1);
  EXPECT_EQ(at(kHalf).row_begin, std::int64_t{1} << 30);
  const auto last = at(2 * kHalf - 1);
  EXPECT_EQ(last.rows, 63) << "the buffer's last valid row is 2^31 - 2";
  EXPECT_EQ(last.row_begin + last.rows, kIntMax);
  EXPECT_FALSE(RowTileCursor(offs, grid, 1, 2 * kHalf).valid());
  RowTileCursor cursor(offs, grid, 1, 0);
  for (const std::int64_t index :
       {kHalf - 1, kHalf, kHalf + 12345678901, 2 * kHalf - 1, std::int64_t{5}, kHalf + 1}) {
    cursor.seek(index);
    ASSERT_TRUE(cursor.valid());
    EXPECT_EQ(cursor.tile(), at(index));
  }
}

TEST(TileScheduler, HalvesPastTwoToTheThirtyOne) {
  // 2³⁶ tiles of 132 workers: 64 are left over, since 2³⁶ = 4 · 2³⁴ and 2³⁴ ≡ 16 modulo 33.
  constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kTiles = std::int64_t{1} << 36;
  const std::vector<std::int32_t> ends = {1 << 30, kIntMax};
  const CheckedSpan offs(ends);
  const auto grid = row_tile_grid(2, std::int64_t{1} << 31, 1 << 17, {64, 64, 8});
  const auto whole = [&](std::int64_t index) { return RowTileCursor(offs, grid, 1, index).tile(); };
  RowTileCursor cursor(offs, grid, 132, kTiles - 65);
  EXPECT_EQ(cursor.tile(), whole(kTiles - 65));
  cursor.seek(kTiles - 64);
  EXPECT_EQ(cursor.tile(), half_of(whole(kTiles - 64), grid, 0));
  cursor.seek(kTiles + 63);
  ASSERT_TRUE(cursor.valid());
  EXPECT_EQ(cursor.tile(), half_of(whole(kTiles - 1), grid, 1));
  EXPECT_EQ(cursor.tile().columns, 32);
  EXPECT_EQ(cursor.tile().column_begin, whole(kTiles - 1).column_begin + 32);
  cursor.seek(kTiles + 64);
  EXPECT_FALSE(cursor.valid());
}

TEST(TileScheduler, TilesOfFewRowsPastTwoToTheThirtyOne) {
  // As above, but the 63 rows left over are 2¹⁰ tiles of few rows, at the end.
  constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kLarge = (std::int64_t{1} << 36) - (1 << 11);
  const std::vector<std::int32_t> ends = {1 << 30, kIntMax};
  const CheckedSpan offs(ends);
  const auto grid = row_tile_grid(2, std::int64_t{1} << 31, 1 << 17, {64, 64, 8, 63, 128});
  ASSERT_EQ(count_row_tiles(offs, grid), kLarge + (1 << 10));
  const auto at = [&](std::int64_t index) { return RowTileCursor(offs, grid, 1, index).tile(); };
  EXPECT_EQ(at(kLarge - 1).kind, RowTileKind::large);
  EXPECT_EQ(at(kLarge - 1).rows, 64);
  constexpr std::int64_t kFirstRow = std::int64_t{(1 << 24) - 1} * 64;
  const RowTile<> first{.expert = 1,
                        .kind = RowTileKind::few,
                        .m_tile = (1 << 24) - 1,
                        .row = kFirstRow,
                        .row_begin = (std::int64_t{1} << 30) + kFirstRow,
                        .rows = 63,
                        .segment_end = kIntMax,
                        .columns = 128};
  EXPECT_EQ(at(kLarge), first);
  const auto last = at(kLarge + (1 << 10) - 1);
  EXPECT_EQ(last.kind, RowTileKind::few);
  EXPECT_EQ(last.column_begin + last.columns, 1 << 17);
  EXPECT_FALSE(RowTileCursor(offs, grid, 1, kLarge + (1 << 10)).valid());
}

// ---- Bounds
// ----------------------------------------------------------------------------------------------

// The most tile rows over all ways to share m rows among e experts, by brute force.
std::int64_t most_row_tiles(std::int64_t rows, std::int64_t experts, std::int64_t tile) {
  if (experts == 0 || rows == 0) return 0;
  std::int64_t most = 0;
  for (std::int64_t first = 0; first <= rows; ++first) {
    most =
        std::max(most, (first + tile - 1) / tile + most_row_tiles(rows - first, experts - 1, tile));
  }
  return most;
}

TEST(TileScheduler, BoundForCorrectOffsetsIsReached) {
  for (std::int64_t rows = 0; rows <= 14; ++rows) {
    for (std::int64_t experts = 1; experts <= 4; ++experts) {
      for (std::int64_t tile = 1; tile <= 6; ++tile) {
        ASSERT_EQ(max_row_tiles(rows, experts, tile), most_row_tiles(rows, experts, tile))
            << rows << " rows, " << experts << " experts, tile " << tile;
      }
    }
  }
}

// Alternating M, 0, M, 0, … makes every other segment the whole buffer: the worst that offsets can
// do.
TEST(TileScheduler, BoundForAnyOffsetsCoversTheWorst) {
  for (const std::int64_t num_experts : {1, 2, 3, 64, 4095, 4096}) {
    std::vector<std::int32_t> offs;
    for (std::int64_t e = 0; e < num_experts; ++e) offs.push_back(e % 2 == 0 ? 1000 : 0);
    const auto grid = row_tile_grid(static_cast<std::int32_t>(num_experts), 1000, 8, {128, 8, 8});
    const std::int64_t tiles = count_row_tiles(CheckedSpan(offs), grid);
    EXPECT_EQ(tiles, (num_experts + 1) / 2 * 8);
    EXPECT_LE(tiles, max_row_tiles_any_offsets(1000, num_experts, 128));
  }
}

}  // namespace
}  // namespace moesaic::math
