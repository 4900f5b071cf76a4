// SPDX-License-Identifier: Apache-2.0
#include "math/weight_tile_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "math/checked_span.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

// Three experts with 0, 5, 0 rows; dw 3 × 5 in tiles of 2 × 4; two rows per pipeline step.
constexpr std::array<std::int32_t, 3> kOffs = {0, 5, 5};
constexpr auto kGrid = weight_tile_grid<std::int32_t>(3, 8, 3, 5, 2, 4, 2, 8);
static_assert(kGrid.tiles_per_expert() == 4 && kGrid.total_tiles() == 12);
static_assert(weight_tile(kOffs.data(), kGrid, 7) ==
              WeightTile<std::int32_t>{1, 1, 1, 2, 1, 4, 1, {0, 5}, 3});
static_assert(weight_tile(kOffs.data(), kGrid, 8).valid() &&
              weight_tile(kOffs.data(), kGrid, 8).rows.empty() &&
              weight_tile(kOffs.data(), kGrid, 8).row_blocks == 0);
static_assert(!weight_tile(kOffs.data(), kGrid, 12).valid());
static_assert(split_weight_tile_index(kGrid, 7) == WeightTileIndex<std::int32_t>{1, 3});
static_assert(weight_tiles_fit<std::int32_t>(4096, 16384, 16384, 128, 256));
static_assert(!weight_tiles_fit<std::int32_t>(4096, 1 << 17, 1 << 17, 128, 128));

template <class Local>
void expect_complete(const ScheduleCase& c, std::int64_t k, std::int64_t tile_k,
                     std::int64_t block_rows) {
  const auto num_experts = static_cast<std::int32_t>(c.offs.size());
  const auto segments = reference_segments(c);
  const auto grid = weight_tile_grid<Local>(
      num_experts, c.max_rows, static_cast<Local>(c.n), static_cast<Local>(k),
      static_cast<Local>(c.tile_n), static_cast<Local>(tile_k), static_cast<Local>(block_rows),
      static_cast<Local>(c.group_m));
  const std::int64_t n_tiles = (c.n + c.tile_n - 1) / c.tile_n;
  const std::int64_t k_tiles = (k + tile_k - 1) / tile_k;
  ASSERT_EQ(grid.total_tiles(), num_experts * n_tiles * k_tiles);
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(grid.total_tiles()), 0);
  for (std::int64_t worker = 0; worker < c.num_workers; ++worker) {
    for (std::int64_t index = worker; index < grid.total_tiles(); index += c.num_workers) {
      const WeightTile<Local> tile = weight_tile(CheckedSpan(c.offs), grid, index);
      ASSERT_EQ(tile.expert, index / (n_tiles * k_tiles)) << "experts in order, each contiguous";
      const ReferenceSegment& segment = segments[static_cast<std::size_t>(tile.expert)];
      const std::int64_t n_begin = std::int64_t{tile.n_tile} * c.tile_n;
      const std::int64_t k_begin = std::int64_t{tile.k_tile} * tile_k;
      const bool inside = tile.n_tile >= 0 && n_begin < c.n && tile.k_tile >= 0 && k_begin < k;
      ASSERT_TRUE(inside) << index;
      ASSERT_TRUE(tile.n_begin == n_begin && tile.n_count == std::min(c.tile_n, c.n - n_begin) &&
                  tile.k_begin == k_begin && tile.k_count == std::min(tile_k, k - k_begin))
          << index;
      ASSERT_EQ(tile.rows.rows(), segment.rows) << index;
      ASSERT_TRUE(tile.rows.empty() || tile.rows.begin == segment.begin) << index;
      // The blocks are as many as are needed to reach the last row, and no more.
      ASSERT_TRUE(tile.row_blocks * block_rows >= segment.rows &&
                  (tile.row_blocks - 1) * block_rows < std::max<std::int64_t>(segment.rows, 1))
          << index;
      ++seen[static_cast<std::size_t>((tile.expert * n_tiles + tile.n_tile) * k_tiles +
                                      tile.k_tile)];
    }
  }
  ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), grid.total_tiles());
  ASSERT_FALSE(weight_tile(CheckedSpan(c.offs), grid, grid.total_tiles()).valid());
}

TEST(WeightTileScheduler, EveryTileOfEveryExpertExactlyOnce) {
  ScheduleCases cases(406);
  constexpr std::array<std::int64_t, 4> kTileK = {1, 8, 192, 256};
  constexpr std::array<std::int64_t, 4> kBlockRows = {1, 16, 64, 100};
  for (std::size_t i = 0; i < 4000; ++i) {
    const ScheduleCase c = cases.next();
    const std::int64_t tile_k = kTileK[i % 4];
    const std::int64_t k = 1 + static_cast<std::int64_t>(i * 37) % (3 * tile_k);
    if (i % 2 == 0) {
      expect_complete<std::int32_t>(c, k, tile_k, kBlockRows[i / 4 % 4]);
    } else {
      expect_complete<std::int64_t>(c, k, tile_k, kBlockRows[i / 4 % 4]);
    }
    ASSERT_FALSE(HasFatalFailure()) << "case " << i << ": E " << c.offs.size() << ", N " << c.n
                                    << ", K " << k << ", tile " << c.tile_n << "x" << tile_k;
  }
}

TEST(WeightTileScheduler, IndicesPastTwoToTheThirtyOne) {
  // 4096 experts of 2¹⁰ × 2¹⁰ tiles: 2³² in all.
  std::vector<std::int32_t> offs(4096);
  for (std::int32_t e = 0; e < 4096; ++e) offs[static_cast<std::size_t>(e)] = 3 * (e + 1);
  const auto grid = weight_tile_grid(4096, 3 * 4096, 1 << 17, 1 << 17, 128, 128, 64, 8);
  ASSERT_EQ(grid.total_tiles(), std::int64_t{1} << 32);
  const WeightTile<> tile = weight_tile(CheckedSpan(offs), grid, (std::int64_t{1} << 32) - 1);
  EXPECT_EQ(tile.expert, 4095);
  EXPECT_EQ(tile.rows, (RowRange{3 * 4095, 3 * 4096}));
  EXPECT_EQ(tile.n_begin, (1 << 17) - 128);
  EXPECT_FALSE(weight_tile(CheckedSpan(offs), grid, std::int64_t{1} << 32).valid());
}

}  // namespace
}  // namespace moesaic::math
