// SPDX-License-Identifier: Apache-2.0
#include "math/weight_tile_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "math/checked_span.hpp"
#include "math/tile_order.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

// Four experts with 0, 5, 0, 3 rows; dw 3 × 5 in tiles of 2 × 4; two rows per pipeline step:
// classes 0, 2, 0, 2.
constexpr std::array<std::int32_t, 4> kOffs = {0, 5, 5, 8};
constexpr auto kGrid = weight_tile_grid<std::int32_t>(4, 8, 3, 5, 2, 4, 2, 8);
static_assert(kGrid.tiles_per_expert() == 4 && kGrid.total_tiles() == 16);

constexpr WeightTile<std::int32_t> toy_tile(std::int64_t begin, std::int64_t index) {
  WeightTileCursor cursor(kOffs.data(), kGrid, begin);
  cursor.seek(index);
  return cursor.tile();
}
static_assert(toy_tile(0, 3) == WeightTile<std::int32_t>{1, 1, 1, 2, 1, 4, 1, {0, 5}, 3});
static_assert(toy_tile(2, 4) == WeightTile<std::int32_t>{3, 0, 0, 0, 2, 0, 4, {5, 8}, 2});
static_assert(toy_tile(8, 8) == WeightTile<std::int32_t>{0, 0, 0, 0, 2, 0, 4, {}, 0});
static_assert(toy_tile(1, 15) == WeightTile<std::int32_t>{2, 1, 1, 2, 1, 4, 1, {5, 5}, 0});
static_assert(WeightTileCursor(kOffs.data(), kGrid, 15).valid() &&
              !WeightTileCursor(kOffs.data(), kGrid, 16).valid() &&
              !WeightTileCursor(kOffs.data(), kGrid, kInt64Max).valid());
static_assert(toy_tile(0, 0).valid() && !WeightTile<>{}.valid());

static_assert(weight_tile_class(0) == 0 && weight_tile_class(1) == 1 && weight_tile_class(2) == 2 &&
              weight_tile_class(3) == 2 && weight_tile_class(4) == 3 && weight_tile_class(7) == 3);
static_assert(weight_tile_class(kMaxOf<std::int32_t>) == kWeightTileClasses - 1,
              "the first class of a cursor is the highest that offsets can ask for");

static_assert(weight_tiles_fit<std::int32_t>(4096, 16384, 16384, 128, 256));
static_assert(!weight_tiles_fit<std::int32_t>(4096, 1 << 17, 1 << 17, 128, 128));

/// Pipeline steps that `rows` rows take.
std::int64_t blocks_of(std::int64_t rows, std::int64_t block_rows) {
  return (rows + block_rows - 1) / block_rows;
}

/// The experts as the contract orders them: by how many binary digits their blocks have, falling.
std::vector<std::int32_t> reference_order(const std::vector<ReferenceSegment>& segments,
                                          std::int64_t block_rows) {
  std::vector<std::int32_t> order(segments.size());
  std::iota(order.begin(), order.end(), 0);
  const auto digits = [&](std::int32_t e) {
    const std::int64_t rows = segments[static_cast<std::size_t>(e)].rows;
    return std::bit_width(static_cast<std::uint64_t>(blocks_of(rows, block_rows)));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t x, std::int32_t y) { return digits(x) > digits(y); });
  return order;
}

template <class Local>
void expect_complete(const ScheduleCase& c, std::int64_t k, std::int64_t tile_k,
                     std::int64_t block_rows, std::uint64_t seed) {
  const auto num_experts = static_cast<std::int32_t>(c.offs.size());
  const auto segments = reference_segments(c);
  const auto order = reference_order(segments, block_rows);
  const auto grid = weight_tile_grid<Local>(
      num_experts, c.max_rows, static_cast<Local>(c.n), static_cast<Local>(k),
      static_cast<Local>(c.tile_n), static_cast<Local>(tile_k), static_cast<Local>(block_rows),
      static_cast<Local>(c.group_m));
  const std::int64_t n_tiles = (c.n + c.tile_n - 1) / c.tile_n;
  const std::int64_t k_tiles = (k + tile_k - 1) / tile_k;
  const std::int64_t per_expert = n_tiles * k_tiles;
  ASSERT_EQ(grid.total_tiles(), num_experts * per_expert);
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(grid.total_tiles()), 0);
  std::vector<WeightTile<Local>> tiles;
  std::int64_t index = 0;
  WeightTileCursor cursor(CheckedSpan(c.offs), grid, 0);
  for (; cursor.valid(); cursor.seek(++index)) {
    ASSERT_LT(index, grid.total_tiles());
    ASSERT_EQ(cursor.index(), index);
    const WeightTile<Local> tile = cursor.tile();
    ASSERT_EQ(tile.expert, order[static_cast<std::size_t>(index / per_expert)])
        << index << ": classes fall, experts of a class in order, each contiguous";
    const ReferenceSegment& segment = segments[static_cast<std::size_t>(tile.expert)];
    const std::int64_t n_begin = std::int64_t{tile.n_tile} * c.tile_n;
    const std::int64_t k_begin = std::int64_t{tile.k_tile} * tile_k;
    const bool inside = tile.n_tile >= 0 && n_begin < c.n && tile.k_tile >= 0 && k_begin < k;
    ASSERT_TRUE(inside) << index;
    ASSERT_EQ(index % per_expert,
              tile_index<std::int64_t>({tile.n_tile, tile.k_tile}, n_tiles, k_tiles, c.group_m));
    ASSERT_TRUE(tile.n_begin == n_begin && tile.n_count == std::min(c.tile_n, c.n - n_begin) &&
                tile.k_begin == k_begin && tile.k_count == std::min(tile_k, k - k_begin))
        << index;
    ASSERT_EQ(tile.rows.rows(), segment.rows) << index;
    ASSERT_TRUE(tile.rows.empty() || tile.rows.begin == segment.begin) << index;
    ASSERT_EQ(tile.row_blocks, blocks_of(segment.rows, block_rows)) << index;
    ++seen[static_cast<std::size_t>((tile.expert * n_tiles + tile.n_tile) * k_tiles + tile.k_tile)];
    tiles.push_back(tile);
  }
  ASSERT_EQ(index, grid.total_tiles());
  ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), grid.total_tiles());

  // Workers that skip what others take come to the same tiles.
  using Cursor = WeightTileCursor<CheckedSpan<const std::int32_t>, Local>;
  std::vector<Cursor> cursors;
  for (std::int64_t worker = 0; worker < c.num_workers; ++worker) {
    cursors.emplace_back(CheckedSpan(c.offs), grid, worker);
  }
  // All in turns, or all but the first to whoever is free.
  const std::int64_t in_turns = seed % 4 < 2 ? 0 : grid.total_tiles();
  std::vector<std::uint8_t> taken(tiles.size(), 0);
  std::int64_t different = 0;
  take_turns(grid.total_tiles(), plain_turns(c.num_workers, in_turns), in_turns + c.num_workers,
             seed, [&](std::int64_t worker, std::int64_t at) {
               Cursor& mine = cursors[static_cast<std::size_t>(worker)];
               mine.seek(at);
               const bool valid = at < grid.total_tiles();
               if (valid) ++taken[static_cast<std::size_t>(at)];
               const bool same = mine.index() == at && mine.valid() == valid &&
                                 (!valid || mine.tile() == tiles[static_cast<std::size_t>(at)]);
               different += same ? 0 : 1;
             });
  ASSERT_EQ(different, 0) << "cursors that skip and the one that steps disagree";
  ASSERT_EQ(std::count(taken.begin(), taken.end(), 1), grid.total_tiles());
}

// Halves of one tile lie side by side and cover it; past K there is nothing.
TEST(WeightTileScheduler, HalvesCoverTheirTile) {
  for (const std::int32_t k : {1, 3, 4, 5, 127, 128, 129, 255, 256, 257, 400}) {
    constexpr std::int32_t kTileK = 256;
    const auto grid = weight_tile_grid<std::int32_t>(4, 8, 3, k, 2, kTileK, 2, 8);
    for (std::int32_t local = 0; local < grid.tiles_per_expert(); ++local) {
      const auto whole = weight_tile_of_expert(kOffs.data(), grid, 1, local);
      const auto left = half_of(whole, grid, 0), right = half_of(whole, grid, 1);
      EXPECT_EQ(left.k_begin, whole.k_begin);
      EXPECT_EQ(right.k_begin, whole.k_begin + kTileK / 2);
      EXPECT_EQ(left.k_count + right.k_count, whole.k_count);
      EXPECT_EQ(right.k_count > 0, whole.k_count > kTileK / 2);
      for (auto half : {left, right}) {
        EXPECT_TRUE(half.half && !whole.half);
        half.half = false;
        half.k_begin = whole.k_begin;
        half.k_count = whole.k_count;
        EXPECT_EQ(half, whole) << "but for its columns a half is its tile";
      }
    }
  }
}

TEST(WeightTileScheduler, EveryTileOfEveryExpertExactlyOnce) {
  ScheduleCases cases(406);
  int wrong = 0;
  constexpr std::array<std::int64_t, 4> kTileK = {1, 8, 192, 256};
  constexpr std::array<std::int64_t, 4> kBlockRows = {1, 16, 64, 100};
  for (std::size_t i = 0; i < 4000; ++i) {
    const ScheduleCase c = cases.next();
    wrong += c.wrong ? 1 : 0;
    const std::int64_t tile_k = kTileK[i % 4];
    const std::int64_t k = 1 + static_cast<std::int64_t>(i * 37) % (3 * tile_k);
    if (i % 2 == 0) {
      expect_complete<std::int32_t>(c, k, tile_k, kBlockRows[i / 4 % 4], i);
    } else {
      expect_complete<std::int64_t>(c, k, tile_k, kBlockRows[i / 4 % 4], i);
    }
    ASSERT_FALSE(HasFatalFailure()) << "case " << i << ": E " << c.offs.size() << ", N " << c.n
                                    << ", K " << k << ", tile " << c.tile_n << "x" << tile_k;
  }
  EXPECT_GT(wrong, 500);  // or the generator does not make what this test is for
}

TEST(WeightTileScheduler, NoExpertsOrNoColumnsMeansNoTiles) {
  const std::vector<std::int32_t> offs = {3, 5};
  const std::vector<std::int32_t> no_offs;
  const auto no_experts = weight_tile_grid(0, 8, 16, 16, 4, 4, 2, 8);
  EXPECT_FALSE(WeightTileCursor(CheckedSpan(no_offs), no_experts, 0).valid());
  const auto no_columns = weight_tile_grid(2, 8, 16, 0, 4, 4, 2, 8);
  EXPECT_FALSE(WeightTileCursor(CheckedSpan(offs), no_columns, 0).valid());
}

// What a few rows more change inside a class must not move an expert.
TEST(WeightTileScheduler, AnExpertMovesWithItsClassOnly) {
  const auto order = [](const std::vector<std::int32_t>& offs) {
    const auto grid = weight_tile_grid(static_cast<std::int32_t>(offs.size()), 10'000, 8, 8, 8, 8,
                                       /*block_rows=*/64, 8);
    std::vector<std::int32_t> experts;
    WeightTileCursor cursor(CheckedSpan{offs}, grid, 0);
    for (; cursor.valid(); cursor.seek(cursor.index() + 1)) experts.push_back(cursor.tile().expert);
    return experts;
  };
  using Experts = std::vector<std::int32_t>;
  // Blocks 2, 3, 1, 4, 0, 7: classes 2, 2, 1, 3, 0, 3.
  EXPECT_EQ(order({128, 320, 384, 640, 640, 1088}), (Experts{3, 5, 0, 1, 2, 4}));
  // One row more for expert 1 makes four blocks of three; one less for expert 3 three of four.
  EXPECT_EQ(order({128, 321, 385, 641, 641, 1089}), (Experts{1, 3, 5, 0, 2, 4}));
  EXPECT_EQ(order({128, 320, 384, 576, 576, 1024}), (Experts{5, 0, 1, 3, 2, 4}));
  // An offset that is wrong empties its expert and the next.
  EXPECT_EQ(order({128, 320, 384, -1, 640, 1088}), (Experts{5, 0, 1, 2, 3, 4}));
}

TEST(WeightTileScheduler, IndicesPastTwoToTheThirtyOne) {
  // 4096 experts of 2¹⁰ × 2¹⁰ tiles: 2³² in all. Expert 9 has no rows, expert 4000 has most.
  constexpr std::int64_t kPerExpert = std::int64_t{1} << 20;
  constexpr std::int64_t kTotal = kPerExpert << 12;
  std::vector<std::int32_t> offs;
  std::int32_t end = 0;
  for (std::int32_t e = 0; e < 4096; ++e) {
    end += e == 9 ? 0 : e == 4000 ? 300 : 3;
    offs.push_back(end);
  }
  const auto grid = weight_tile_grid(4096, end, 1 << 17, 1 << 17, 128, 128, 64, 8);
  ASSERT_EQ(grid.total_tiles(), kTotal);
  const auto at = [&](std::int64_t index) {
    const WeightTileCursor cursor(CheckedSpan{offs}, grid, index);
    EXPECT_TRUE(cursor.valid()) << index;
    return cursor.tile();
  };
  EXPECT_EQ(at(kPerExpert - 1).expert, 4000);
  EXPECT_EQ(at(kPerExpert - 1).row_blocks, 5);
  EXPECT_EQ(at(kPerExpert).expert, 0);
  EXPECT_EQ(at(kTotal - kPerExpert - 1).expert, 4095);
  EXPECT_EQ(at(kTotal - kPerExpert - 1).rows, (RowRange{end - 3, end}));
  const WeightTile<> last = at(kTotal - 1);
  EXPECT_EQ(last.expert, 9);
  EXPECT_TRUE(last.rows.empty());
  EXPECT_EQ(last.n_begin, (1 << 17) - 128);
  EXPECT_FALSE(WeightTileCursor(CheckedSpan{offs}, grid, kTotal).valid());
}

// One expert with as many rows as an offset can say is of the highest class.
TEST(WeightTileScheduler, TheLongestContraction) {
  constexpr std::int32_t kIntMax = kMaxOf<std::int32_t>;
  const std::vector<std::int32_t> offs = {0, kIntMax};
  const auto grid = weight_tile_grid<std::int32_t>(2, kIntMax, 8, 8, 8, 8, /*block_rows=*/1, 8);
  const WeightTileCursor cursor(CheckedSpan{offs}, grid, 0);
  EXPECT_EQ(cursor.tile().expert, 1);
  EXPECT_EQ(cursor.tile().row_blocks, kIntMax);
}

}  // namespace
}  // namespace moesaic::math
