// SPDX-License-Identifier: Apache-2.0
// How two CTAs share a tile: over the whole schedule of the pairs that a launch has, every element
// of every expert's output is one CTA's, once, both CTAs have the same steps, and what they load
// for each other is what both multiply.
#include "math/pair_tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "math/checked_span.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

using Shape = RowTileShape<std::int64_t>;

/// The shape of the compiled kernels, and a small one of the same proportions.
constexpr Shape kKernel{256, 256, 8, 64, 256};
constexpr Shape kSmall{8, 8, 3, 2, 8};

/// Of a segment that begins at row 1000, the tile that begins 256 rows in, at column 512.
constexpr RowTile<> tile_of(std::int64_t rows, std::int64_t columns, bool half = false) {
  RowTile<> tile;
  tile.expert = 0;
  tile.half = half;
  tile.row = 256;
  tile.row_begin = 1256;
  tile.rows = rows;
  tile.segment_end = 1256 + rows;
  tile.column_begin = 512;
  tile.columns = columns;
  return tile;
}
constexpr bool has(const PairTile<>& own, PairShares shares, std::int64_t row, std::int64_t rows,
                   std::int64_t column, std::int64_t columns, bool half) {
  return own.shares == shares && own.row == row && own.row_begin == row + 1000 &&
         own.rows == rows && own.column_begin == column && own.columns == columns &&
         own.half == half;
}
constexpr auto kColumns = PairShares::columns, kRows = PairShares::rows;

static_assert(has(pair_tile(tile_of(256, 256), kKernel, 0), kColumns, 256, 128, 512, 256, 0));
static_assert(has(pair_tile(tile_of(256, 256), kKernel, 1), kColumns, 384, 128, 512, 256, 0));
static_assert(has(pair_tile(tile_of(129, 200), kKernel, 1), kColumns, 384, 1, 512, 200, 0));
static_assert(has(pair_tile(tile_of(128, 200), kKernel, 0), kRows, 256, 128, 512, 128, 1));
static_assert(has(pair_tile(tile_of(128, 200), kKernel, 1), kRows, 256, 128, 640, 72, 1));
static_assert(has(pair_tile(tile_of(65, 128), kKernel, 1), kRows, 256, 65, 640, 0, 1));
// A half is of the last round, whose columns are not cut again.
static_assert(has(pair_tile(tile_of(100, 128, true), kKernel, 0), kColumns, 256, 100, 512, 128, 1));
static_assert(has(pair_tile(tile_of(100, 128, true), kKernel, 1), kColumns, 384, 0, 512, 128, 1));

static_assert(pair_share(kKernel, pair_tile(tile_of(256, 256), kKernel, 0)) == 128);
static_assert(pair_share(kKernel, pair_tile(tile_of(256, 128, true), kKernel, 0)) == 64);
static_assert(pair_share(kKernel, pair_tile(tile_of(70, 256), kKernel, 1)) == 64);

/// Adds a CTA's own to how often each element of [rows of the buffer, N] is stored.
void store(const PairTile<>& own, std::int64_t n, std::vector<int>& stores) {
  for (std::int64_t row = 0; row < own.rows; ++row) {
    for (std::int64_t column = 0; column < own.columns; ++column) {
      ++stores.at(static_cast<std::size_t>((own.row_begin + row) * n + own.column_begin + column));
    }
  }
}

/// The same work in the same number of steps, of one segment, in the room of a CTA.
void expect_in_step(const RowTile<>& tile, const std::array<PairTile<>, 2>& both,
                    const RowTileGrid<>& grid) {
  const bool few = tile.kind == RowTileKind::few;
  EXPECT_EQ(both[0].half, both[1].half);
  EXPECT_EQ(both[0].shares, both[1].shares);
  EXPECT_EQ(both[0].shares == PairShares::nothing, few);
  for (const PairTile<>& own : both) {
    EXPECT_EQ(own.expert, tile.expert);
    EXPECT_EQ(own.kind, tile.kind);
    EXPECT_EQ(own.segment_end, tile.segment_end);
    EXPECT_EQ(own.row_begin - own.row, tile.row_begin - tile.row);
    EXPECT_LE(own.rows, few ? grid.shape.few_m : grid.shape.tile_m / 2);
    EXPECT_LE(own.columns, few || own.half ? grid.shape.tile_n / 2 : grid.shape.tile_n);
    // Stores are clipped at the segment and at N, where rows and columns end.
    EXPECT_TRUE(own.rows == 0 || own.row_begin + own.rows <= own.segment_end);
    EXPECT_TRUE(own.columns == 0 || own.column_begin + own.columns <= grid.n);
    EXPECT_TRUE(own.rows > 0 || own.row_begin >= own.segment_end);
    EXPECT_TRUE(own.columns > 0 || own.column_begin >= grid.n);
  }
  EXPECT_TRUE(both[0].rows > 0 && both[0].columns > 0);
}

std::vector<int> stores_of(const std::vector<std::int32_t>& ends, const RowTileGrid<>& grid,
                           std::int64_t pairs) {
  std::vector<int> stores(static_cast<std::size_t>(grid.max_rows * grid.n));
  const CheckedSpan offs(ends);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    RowTileCursor cursor(offs, grid, pairs, pair);
    for (; cursor.valid(); cursor.seek(cursor.index() + pairs)) {
      const RowTile<> tile = cursor.tile();
      if (tile.columns == 0) continue;  // a right half of nothing: both CTAs pass it over
      const std::array both{pair_tile(tile, grid.shape, 0), pair_tile(tile, grid.shape, 1)};
      expect_in_step(tile, both, grid);
      for (const PairTile<>& own : both) store(own, grid.n, stores);
    }
  }
  return stores;
}

void expect_covered(const std::vector<std::int32_t>& ends, const RowTileGrid<>& grid,
                    std::int64_t pairs) {
  const std::vector<int> stores = stores_of(ends, grid, pairs);
  const auto covered = static_cast<std::ptrdiff_t>(ends.back() * grid.n);
  EXPECT_EQ(std::count(stores.begin(), stores.begin() + covered, 1), covered)
      << ends.size() << " experts, N " << grid.n << ", pairs " << pairs;
  EXPECT_EQ(std::count(stores.begin() + covered, stores.end(), 0),
            stores.end() - stores.begin() - covered)
      << "the tail is nobody's";
}

TEST(PairTiles, EveryElementIsStoredOnceByOneOfTheTwo) {
  std::mt19937_64 random(21);
  const auto below = [&](int limit) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::int32_t> ends;
    std::int32_t end = 0;
    for (int e = 1 + below(9); e > 0; --e) {
      const int kind = below(4);
      end += kind == 0 ? 0 : kind == 1 ? 8 * below(3) + below(6) : below(40);
      ends.push_back(end);
    }
    expect_covered(ends,
                   row_tile_grid(static_cast<std::int32_t>(ends.size()), end + below(5),
                                 1 + below(30), kSmall),
                   1 + below(20));
  }
}

// Counts around every edge of the kernels' own tiles: none, few, one CTA's rows and both's, odd
// numbers of 128 rows.
TEST(PairTiles, OfTheKernelsShapeToo) {
  std::vector<std::int32_t> ends;
  std::int32_t end = 0;
  for (const std::int32_t rows :
       {0, 1, 64, 65, 127, 128, 129, 192, 193, 255, 256, 257, 0, 320, 321, 384, 385, 511, 513}) {
    ends.push_back(end += rows);
  }
  for (const std::int64_t n : {8, 64, 72, 128, 136, 256, 264, 384, 520}) {
    const auto grid = row_tile_grid(static_cast<std::int32_t>(ends.size()), end + 7, n, kKernel);
    for (const std::int64_t pairs : {1, 2, 5, 66}) expect_covered(ends, grid, pairs);
  }
}

TEST(PairTiles, WrongOffsetsSpoilTheirOwnSegmentsAlone) {
  constexpr std::int64_t kN = 72;
  ScheduleCases cases(22);
  for (int i = 0; i < 400; ++i) {
    const ScheduleCase c = cases.next();
    if (c.offs.size() > 64) continue;
    const auto grid =
        row_tile_grid(static_cast<std::int32_t>(c.offs.size()), c.max_rows, kN, kKernel);
    std::vector<int> expected(static_cast<std::size_t>(grid.max_rows * kN));
    for (const ReferenceSegment& segment : reference_segments(c)) {
      const auto begin = expected.begin() + segment.begin * kN;
      for (auto at = begin; at != begin + segment.rows * kN; ++at) ++*at;
    }
    ASSERT_EQ(stores_of(c.offs, grid, c.num_workers), expected) << i;
  }
}

// What both multiply is loaded once, half by each.
TEST(PairTiles, TheTwoLoadWhatTheyShareOnce) {
  for (const std::int64_t rows : {65, 128, 129, 256}) {
    for (const bool half : {false, true}) {
      const PairTile<> own = pair_tile(tile_of(rows, half ? 128 : 256, half), kKernel, 0);
      const bool columns = own.shares == PairShares::columns;
      EXPECT_EQ(2 * pair_share(kKernel, own), !columns ? 128 : half ? 128 : 256);
    }
  }
}

}  // namespace
}  // namespace moesaic::math
