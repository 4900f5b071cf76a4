// SPDX-License-Identifier: Apache-2.0
#include "math/tile_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "math/checked_span.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

// ---- Examples that the compiler checks
// -------------------------------------------------------------------

constexpr std::array<std::int32_t, 4> kToy = {1, 5, 8, 10};
constexpr auto kToyGrid = row_tile_grid<std::int32_t>(4, 12, 4, 2, 2, 8);

constexpr RowTile<std::int32_t> third_tile_of_worker_1_of_4() {
  RowTileCursor cursor(kToy.data(), kToyGrid, 1, 4);
  cursor.advance();
  cursor.advance();
  return cursor.tile();
}
static_assert(count_row_tiles(kToy.data(), kToyGrid) == 12);
static_assert(third_tile_of_worker_1_of_4() == RowTile<std::int32_t>{2, 1, 1, 7, 1, 8, 2, 2});
static_assert(third_tile_of_worker_1_of_4().valid() && !RowTile<>{}.valid());

constexpr std::int32_t prefix_finds(std::int64_t index) {
  std::array<std::int32_t, 4> prefix{};
  build_row_tile_prefix(kToy.data(), kToyGrid, prefix.data());
  return find_row_tile(prefix.data(), kToy.data(), kToyGrid, index).expert;
}
static_assert(prefix_finds(0) == 0 && prefix_finds(1) == 0 && prefix_finds(2) == 1);
static_assert(prefix_finds(11) == 3 && prefix_finds(12) == -1 && prefix_finds(1'000'000) == -1);

static_assert(max_row_tiles(131072, 32, 128) == 1055, "an off-by-one gave too few elsewhere");
static_assert(max_row_tiles(0, 64, 128) == 0 && max_row_tiles(3, 64, 128) == 3);
static_assert(row_tile_prefix_fits_int32(1 << 20, 4096, 64));
static_assert(!row_tile_prefix_fits_int32(std::int64_t{1} << 31, 4096, 64));
static_assert(local_tiles_fit<std::int32_t>(1 << 20, 16384, 64, 64));
static_assert(!local_tiles_fit<std::int32_t>(std::int64_t{1} << 31, 1 << 17, 64, 64));
static_assert(local_tiles_fit<std::int64_t>(std::int64_t{1} << 31, 1 << 17, 64, 64));

// ---- Properties on random offsets
// ------------------------------------------------------------------------

// One case at a time; the first disagreement is described in `failure`.
template <class Local, class Entry>
class Coverage {
 public:
  explicit Coverage(const ScheduleCase& c)
      : case_(c),
        segments_(reference_segments(c)),
        num_experts_(static_cast<std::int32_t>(c.offs.size())),
        grid_(row_tile_grid<Local>(num_experts_, c.max_rows, static_cast<Local>(c.n),
                                   static_cast<Local>(c.tile_m), static_cast<Local>(c.tile_n),
                                   static_cast<Local>(c.group_m))) {
    n_tiles_ = (c.n + c.tile_n - 1) / c.tile_n;
    std::int64_t total = 0;
    for (const ReferenceSegment& segment : segments_) {
      first_.push_back(total);
      total += (segment.rows + c.tile_m - 1) / c.tile_m * n_tiles_;
    }
    seen_.assign(static_cast<std::size_t>(total), 0);
  }

  void run() {
    std::vector<Entry> prefix(case_.offs.size());
    const std::int64_t row_tiles =
        build_row_tile_prefix(CheckedSpan(case_.offs), grid_, CheckedSpan(prefix));
    const auto total = static_cast<std::int64_t>(seen_.size());
    ASSERT_EQ(row_tiles * n_tiles_, total);
    ASSERT_EQ(count_row_tiles(CheckedSpan(case_.offs), grid_), total);
    ASSERT_LE(row_tiles, max_row_tiles_any_offsets(case_.max_rows, num_experts_, case_.tile_m));
    if (!case_.wrong) {
      ASSERT_LE(row_tiles, max_row_tiles(case_.max_rows, num_experts_, case_.tile_m));
    }
    for (std::int64_t worker = 0; worker < case_.num_workers; ++worker) walk(worker, prefix);
    ASSERT_FALSE(find_row_tile(CheckedSpan(prefix), CheckedSpan(case_.offs), grid_, total).valid());
    ASSERT_EQ(std::count(seen_.begin(), seen_.end(), 1), total) << "a tile is missing or doubled";
    tiles_checked += total;
  }

  static inline std::int64_t tiles_checked = 0;

 private:
  void walk(std::int64_t worker, const std::vector<Entry>& prefix) {
    const CheckedSpan offs(case_.offs);
    RowTileCursor cursor(offs, grid_, worker, case_.num_workers);
    std::int32_t expert = 0;
    std::int64_t index = worker;
    for (; cursor.valid(); cursor.advance(), index += case_.num_workers) {
      const RowTile<Local> tile = cursor.tile();
      expert = find_expert_from(expert, CheckedSpan(prefix), num_experts_, n_tiles_, index);
      const bool agree =
          cursor.index() == index &&
          find_row_tile(CheckedSpan(prefix), offs, grid_, index) == tile &&
          row_tile_in_expert(CheckedSpan(prefix), offs, grid_, expert, index) == tile;
      ASSERT_TRUE(agree) << "cursor and prefix table disagree at tile " << index;
      ASSERT_TRUE(fits_reference(tile, index)) << "tile " << index;
    }
    ASSERT_GE(index, static_cast<std::int64_t>(seen_.size()))
        << "worker " << worker << " stopped early";
  }

  bool fits_reference(const RowTile<Local>& tile, std::int64_t index) {
    if (tile.expert < 0 || tile.expert >= num_experts_) return false;
    const ReferenceSegment& segment = segments_[static_cast<std::size_t>(tile.expert)];
    const std::int64_t row = std::int64_t{tile.m_tile} * case_.tile_m;
    const std::int64_t column = std::int64_t{tile.n_tile} * case_.tile_n;
    if (tile.m_tile < 0 || row >= segment.rows || tile.n_tile < 0 || column >= case_.n)
      return false;
    const std::int64_t first = first_[static_cast<std::size_t>(tile.expert)];
    ++seen_[static_cast<std::size_t>(first + tile.m_tile * n_tiles_ + tile.n_tile)];
    // Tiles of one expert are contiguous, and the expert's first tile has the expert's first index.
    const std::int64_t m_tiles = (segment.rows + case_.tile_m - 1) / case_.tile_m;
    return index >= first && index < first + m_tiles * n_tiles_ &&
           tile.row_begin == segment.begin + row &&
           tile.rows == std::min(case_.tile_m, segment.rows - row) &&
           tile.segment_end == segment.begin + segment.rows && tile.column_begin == column &&
           tile.columns == std::min(case_.tile_n, case_.n - column) && tile.row_begin >= 0 &&
           tile.row_begin + tile.rows <= case_.max_rows;
  }

  const ScheduleCase& case_;
  std::vector<ReferenceSegment> segments_;
  std::int32_t num_experts_;
  RowTileGrid<Local> grid_;
  std::int64_t n_tiles_ = 0;
  std::vector<std::int64_t> first_;
  std::vector<std::uint8_t> seen_;
};

TEST(TileScheduler, EveryTileOfEveryValidSegmentExactlyOnce) {
  ScheduleCases cases(20261129);
  int wrong = 0;
  int large = 0;
  for (int i = 0; i < 20000; ++i) {
    const ScheduleCase c = cases.next();
    wrong += c.wrong ? 1 : 0;
    large += c.offs.size() >= 1023 ? 1 : 0;
    if (i % 2 == 0) {
      Coverage<std::int32_t, std::int64_t>(c).run();
    } else {
      Coverage<std::int64_t, std::int32_t>(c).run();
    }
    ASSERT_FALSE(HasFatalFailure())
        << "case " << i << ": E " << c.offs.size() << ", M " << c.max_rows << ", tile " << c.tile_m
        << "x" << c.tile_n << ", workers " << c.num_workers << (c.wrong ? ", wrong offsets" : "");
  }
  // The generator must have made what this test is for.
  EXPECT_GT(wrong, 3000);
  EXPECT_GT(large, 10);
  const std::int64_t tiles = Coverage<std::int32_t, std::int64_t>::tiles_checked +
                             Coverage<std::int64_t, std::int32_t>::tiles_checked;
  EXPECT_GT(tiles, 1'000'000);
}

TEST(TileScheduler, NoExpertsOrNoColumnsMeansNoTiles) {
  const std::vector<std::int32_t> offs = {3, 5};
  const auto no_experts = row_tile_grid(0, 8, 16, 4, 4, 8);
  EXPECT_FALSE(RowTileCursor(CheckedSpan(offs), no_experts, 0, 1).valid());
  const auto no_columns = row_tile_grid(2, 8, 0, 4, 4, 8);
  EXPECT_FALSE(RowTileCursor(CheckedSpan(offs), no_columns, 0, 1).valid());
  std::vector<std::int64_t> prefix(2);
  build_row_tile_prefix(CheckedSpan(offs), no_columns, CheckedSpan(prefix));
  EXPECT_FALSE(find_row_tile(CheckedSpan(prefix), CheckedSpan(offs), no_columns, 0).valid());
}

TEST(TileScheduler, MoreWorkersThanTilesLeavesTheRestIdle) {
  int busy = 0;
  for (std::int64_t worker = 0; worker < 132; ++worker) {
    busy += RowTileCursor(kToy.data(), kToyGrid, worker, 132).valid() ? 1 : 0;
  }
  EXPECT_EQ(busy, 12);
}

// ---- Sizes past 2³¹
// --------------------------------------------------------------------------------------

TEST(TileScheduler, TileIndicesPastTwoToTheThirtyOne) {
  // 2²⁴ × 2¹¹ tiles for the first expert, one tile row fewer for the second.
  constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> ends = {1 << 30, kIntMax};
  const CheckedSpan offs(ends);
  const auto grid = row_tile_grid(2, std::int64_t{1} << 31, 1 << 17, 64, 64, 8);
  std::vector<std::int64_t> prefix(2);
  ASSERT_EQ(build_row_tile_prefix(offs, grid, CheckedSpan(prefix)), std::int64_t{1} << 25);
  const std::int64_t total = count_row_tiles(offs, grid);
  ASSERT_EQ(total, std::int64_t{1} << 36);
  const std::int64_t half = total / 2;
  const auto last_of_first = find_row_tile(CheckedSpan(prefix), offs, grid, half - 1);
  EXPECT_EQ(last_of_first.expert, 0);
  EXPECT_EQ(last_of_first.row_begin, (std::int64_t{1} << 30) - 64);
  EXPECT_EQ(last_of_first.column_begin, 0)
      << "2^21 groups: the last one is odd and ends at the left";
  const auto first_of_second = find_row_tile(CheckedSpan(prefix), offs, grid, half);
  EXPECT_EQ(first_of_second.expert, 1);
  EXPECT_EQ(first_of_second.row_begin, std::int64_t{1} << 30);
  const auto last = find_row_tile(CheckedSpan(prefix), offs, grid, total - 1);
  EXPECT_EQ(last.rows, 63) << "the buffer's last valid row is 2^31 - 2";
  EXPECT_EQ(last.row_begin + last.rows, kIntMax);
  for (const std::int64_t index :
       {std::int64_t{0}, half - 1, half, half + 12345678901, total - 1}) {
    // A cursor that starts at `index` is the sequential way there.
    const RowTileCursor cursor(offs, grid, index, 1);
    ASSERT_TRUE(cursor.valid());
    EXPECT_EQ(cursor.tile(), find_row_tile(CheckedSpan(prefix), offs, grid, index));
  }
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
    const auto grid = row_tile_grid(static_cast<std::int32_t>(num_experts), 1000, 8, 128, 8, 8);
    const std::int64_t tiles = count_row_tiles(CheckedSpan(offs), grid);
    EXPECT_EQ(tiles, (num_experts + 1) / 2 * 8);
    EXPECT_LE(tiles, max_row_tiles_any_offsets(1000, num_experts, 128));
  }
}

}  // namespace
}  // namespace moesaic::math
