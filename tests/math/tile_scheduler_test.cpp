// SPDX-License-Identifier: Apache-2.0
#include "math/tile_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "math/checked_span.hpp"
#include "math/tile_bounds.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

// ---- Examples that the compiler checks
// -------------------------------------------------------------------

constexpr std::array<std::int32_t, 4> kToy = {1, 5, 8, 10};
constexpr auto kToyGrid = row_tile_grid<std::int32_t>(4, 12, 4, {2, 2, 8});
// The same with tiles of one row over all columns: experts 0 and 2 have one row left over.
constexpr auto kToyFewGrid = row_tile_grid<std::int32_t>(4, 12, 4, {2, 2, 8, 1, 4});

constexpr RowTile<std::int32_t> toy_tile(const RowTileGrid<std::int32_t>& grid,
                                         std::int64_t workers, std::int64_t begin,
                                         std::int64_t index) {
  RowTileCursor cursor(kToy.data(), grid, workers, begin);
  cursor.seek(index);
  return cursor.tile();
}
constexpr bool toy_valid(const RowTileGrid<std::int32_t>& grid, std::int64_t workers,
                         std::int64_t index) {
  return RowTileCursor(kToy.data(), grid, workers, index).valid();
}
using ToyTile = RowTile<std::int32_t>;
static_assert(count_row_tiles(kToy.data(), kToyGrid) == 12);
static_assert(toy_tile(kToyGrid, 1, 1, 9) == ToyTile{2, 1, 1, 7, 1, 8, 2, 2, false, false});
static_assert(toy_tile(kToyGrid, 1, 9, 9) == toy_tile(kToyGrid, 1, 0, 9));
static_assert(count_row_tiles(kToy.data(), kToyFewGrid) == 10, "eight large ones and two");
static_assert(toy_tile(kToyFewGrid, 1, 0, 7) == ToyTile{3, 0, 1, 8, 2, 10, 2, 2, false, false});
static_assert(toy_tile(kToyFewGrid, 1, 7, 8) == ToyTile{0, 0, 0, 0, 1, 1, 0, 4, true, false});
static_assert(toy_tile(kToyFewGrid, 1, 0, 9) == ToyTile{2, 1, 0, 7, 1, 8, 0, 4, true, false});
static_assert(toy_valid(kToyFewGrid, 1, 9) && !toy_valid(kToyFewGrid, 1, 10) &&
              !toy_valid(kToyFewGrid, 1, kInt64Max));
static_assert(toy_tile(kToyGrid, 1, 0, 0).valid() && !RowTile<>{}.valid());

// Eight large tiles of seven workers: the eighth, 3/0/1, is halved before the two of few rows.
static_assert(toy_tile(kToyFewGrid, 7, 0, 6) == toy_tile(kToyFewGrid, 1, 0, 6));
static_assert(toy_tile(kToyFewGrid, 7, 6, 7) == ToyTile{3, 0, 1, 8, 2, 10, 2, 1, false, true});
static_assert(toy_tile(kToyFewGrid, 7, 0, 8) == ToyTile{3, 0, 1, 8, 2, 10, 3, 1, false, true});
static_assert(toy_tile(kToyFewGrid, 7, 8, 9) == toy_tile(kToyFewGrid, 1, 8, 8));
static_assert(toy_valid(kToyFewGrid, 7, 10) && !toy_valid(kToyFewGrid, 7, 11));
// Two are left for the last round: three workers have no room for four halves, six have.
static_assert(toy_valid(kToyFewGrid, 3, 9) && !toy_valid(kToyFewGrid, 3, 10));
static_assert(toy_valid(kToyFewGrid, 6, 11) && !toy_valid(kToyFewGrid, 6, 12));

// What is left over becomes a tile of few rows up to few_m rows, and one more row a large tile.
constexpr auto kShape = row_tile_grid<std::int32_t>(1, 1000, 1, {128, 256, 8, 64, 128});
static_assert(kShape.m_tiles({0, 0}) == 0 && kShape.few_tiles({0, 0}) == 0);
static_assert(kShape.m_tiles({5, 69}) == 0 && kShape.few_tiles({5, 69}) == 1);
static_assert(kShape.m_tiles({5, 70}) == 1 && kShape.few_tiles({5, 70}) == 0);
static_assert(kShape.m_tiles({5, 133}) == 1 && kShape.few_tiles({5, 133}) == 0);
static_assert(kShape.m_tiles({5, 134}) == 1 && kShape.few_tiles({5, 134}) == 1);

static_assert(max_row_tiles(131072, 32, 128) == 1055, "an off-by-one gave too few elsewhere");
static_assert(max_row_tiles(0, 64, 128) == 0 && max_row_tiles(3, 64, 128) == 3);
static_assert(row_tile_prefix_fits_int32(1 << 20, 4096, 64));
static_assert(!row_tile_prefix_fits_int32(std::int64_t{1} << 31, 4096, 64));
static_assert(local_tiles_fit<std::int32_t>(1 << 20, 16384, 64, 64));
static_assert(!local_tiles_fit<std::int32_t>(std::int64_t{1} << 31, 1 << 17, 64, 64));
static_assert(local_tiles_fit<std::int64_t>(std::int64_t{1} << 31, 1 << 17, 64, 64));

// ---- Properties on random offsets
// ------------------------------------------------------------------------

/// A row of tiles that the contract asks for: rows of one expert.
struct ReferenceTileRow {
  std::int32_t expert = 0;
  std::int64_t begin = 0, rows = 0;  // in the segment
  std::int64_t first_index = 0;      // of its expert's tiles of this kind
  std::int64_t first_seen = 0;
};

/// The schedule, written down from its definition: an expert is cut from its first row on, into
/// whole tiles as long as they are full or too many rows for a tile of few rows.
struct ReferenceSchedule {
  explicit ReferenceSchedule(const ScheduleCase& c) : segments(reference_segments(c)) {
    n_tiles = (c.n + c.tile_n - 1) / c.tile_n;
    few_n_tiles = (c.n + c.few_n - 1) / c.few_n;
    for (std::size_t e = 0; e < segments.size(); ++e) {
      m_tiles.push_back(0);
      std::int64_t row = 0;
      for (std::int64_t left = segments[e].rows; left > 0; left = segments[e].rows - row) {
        const bool few = left < c.tile_m && left <= c.few_m;
        const std::int64_t taken = std::min(left, c.tile_m);
        rows[few ? 1 : 0].push_back({static_cast<std::int32_t>(e), row, taken, 0, 0});
        m_tiles.back() += few ? 0 : 1;
        row += taken;
      }
    }
    // Large ones first, then those of few rows; experts in order in both. None is halved here.
    for (const std::size_t few : {0U, 1U}) {
      std::int32_t expert = -1;
      std::int64_t first_index = 0;
      for (ReferenceTileRow& row : rows[few]) {
        if (row.expert != expert) first_index = total;
        expert = row.expert;
        row.first_index = first_index;
        row.first_seen = total;
        total += few == 0 ? n_tiles : few_n_tiles;
      }
    }
    put_in_order(c.num_workers);
  }

  /// A tile among all, none halved, and its side; −1 for the whole.
  struct Piece {
    std::int64_t tile;
    int side;
  };

  std::vector<ReferenceSegment> segments;
  std::array<std::vector<ReferenceTileRow>, 2> rows;  // large, few
  std::vector<std::int64_t> m_tiles;                  // large ones of each expert
  std::int64_t n_tiles = 0, few_n_tiles = 0, total = 0;
  std::int64_t halved = 0, whole = 0;  // of the large ones
  std::vector<Piece> order;            // by index

 private:
  /// Deals the large tiles out in rounds. Where those of a last round that is not full, cut in two,
  /// still give nobody more than one piece, they are cut.
  void put_in_order(std::int64_t num_workers) {
    const auto large = static_cast<std::int64_t>(rows[0].size()) * n_tiles;
    std::int64_t last_round = 0;
    for (std::int64_t tile = 0; tile < large; ++tile) {
      last_round = last_round == num_workers ? 1 : last_round + 1;
    }
    halved = last_round + last_round <= num_workers ? last_round : 0;
    whole = large - halved;
    for (std::int64_t tile = 0; tile < total; ++tile) {
      if (tile >= whole && tile < large) {
        order.push_back({tile, 0});
        order.push_back({tile, 1});
      } else {
        order.push_back({tile, -1});
      }
    }
  }
};

// One case at a time.
template <class Local>
class Coverage {
 public:
  explicit Coverage(const ScheduleCase& c)
      : case_(c),
        reference_(c),
        num_experts_(static_cast<std::int32_t>(c.offs.size())),
        grid_(row_tile_grid<Local>(num_experts_, c.max_rows, static_cast<Local>(c.n),
                                   {static_cast<Local>(c.tile_m), static_cast<Local>(c.tile_n),
                                    static_cast<Local>(c.group_m), static_cast<Local>(c.few_m),
                                    static_cast<Local>(c.few_n)})) {}

  void run(std::uint64_t seed) {
    const auto row_tiles =
        static_cast<std::int64_t>(reference_.rows[0].size() + reference_.rows[1].size());
    ASSERT_EQ(count_row_tiles(CheckedSpan(case_.offs), grid_), reference_.total);
    ASSERT_LE(row_tiles, max_row_tiles_any_offsets(case_.max_rows, num_experts_, case_.tile_m));
    if (!case_.wrong) {
      ASSERT_LE(row_tiles, max_row_tiles(case_.max_rows, num_experts_, case_.tile_m));
    }
    step_by_step();
    if (::testing::Test::HasFatalFailure()) return;
    share_out(seed);
    tiles_checked += reference_.total;
    few_checked += static_cast<std::int64_t>(reference_.rows[1].size()) * reference_.few_n_tiles;
    halved_checked += reference_.halved;
  }

  static inline std::int64_t tiles_checked = 0, few_checked = 0, halved_checked = 0;
  static inline std::int64_t absent_halves = 0;

 private:
  void step_by_step() {
    // Up to which column each tile is there; pieces follow one another without gap or overlap.
    std::vector<std::int64_t> columns_done(static_cast<std::size_t>(reference_.total), -1);
    std::int64_t index = 0;
    RowTileCursor cursor(CheckedSpan(case_.offs), grid_, case_.num_workers, 0);
    for (; cursor.valid(); cursor.seek(++index)) {
      const RowTile<Local> tile = cursor.tile();
      ASSERT_EQ(cursor.index(), index);
      ASSERT_LT(index, indices());
      ASSERT_TRUE(fits_reference(tile, index, columns_done)) << "tile " << index;
      tiles_.push_back(tile);
    }
    ASSERT_EQ(index, indices());
    ASSERT_EQ(std::count(columns_done.begin(), columns_done.end(), kAllColumns), reference_.total)
        << "a tile, or a part of one, is missing";
  }

  [[nodiscard]] std::int64_t indices() const {
    return static_cast<std::int64_t>(reference_.order.size());
  }

  /// Workers that skip what others take come to the same tiles, and together to all of them: whole
  /// large tiles in turns, what follows by whoever is free.
  void share_out(std::uint64_t seed) {
    using Cursor = RowTileCursor<CheckedSpan<const std::int32_t>, Local>;
    std::vector<Cursor> cursors;
    for (std::int64_t worker = 0; worker < case_.num_workers; ++worker) {
      cursors.emplace_back(CheckedSpan(case_.offs), grid_, case_.num_workers, worker);
    }
    std::vector<std::uint8_t> taken(reference_.order.size(), 0);
    std::int64_t different = 0;
    take_turns(indices(), case_.num_workers, reference_.whole, seed,
               [&](std::int64_t worker, std::int64_t index) {
                 Cursor& cursor = cursors[static_cast<std::size_t>(worker)];
                 cursor.seek(index);
                 const bool valid = index < indices();
                 const auto at = static_cast<std::size_t>(index);
                 if (valid) ++taken[at];
                 const bool same = cursor.index() == index && cursor.valid() == valid &&
                                   (!valid || cursor.tile() == tiles_[at]);
                 different += same ? 0 : 1;
               });
    ASSERT_EQ(different, 0) << "cursors that skip and the one that steps disagree";
    ASSERT_EQ(std::count(taken.begin(), taken.end(), 1), indices());
  }

  const ReferenceTileRow* find_row(const RowTile<Local>& tile) const {
    const auto& rows = reference_.rows[tile.few ? 1 : 0];
    const auto row = std::lower_bound(
        rows.begin(), rows.end(), tile, [&](const ReferenceTileRow& r, const RowTile<Local>& t) {
          return r.expert != t.expert ? r.expert < t.expert : r.begin < t.m_tile * case_.tile_m;
        });
    const bool found =
        row != rows.end() && row->expert == tile.expert && row->begin == tile.m_tile * case_.tile_m;
    return found ? &*row : nullptr;
  }

  bool fits_reference(const RowTile<Local>& tile, std::int64_t index,
                      std::vector<std::int64_t>& columns_done) const {
    if (!tile.valid() || tile.m_tile < 0 || tile.n_tile < 0) return false;
    const ReferenceTileRow* row = find_row(tile);
    const std::int64_t width = tile.few ? case_.few_n : case_.tile_n;
    const std::int64_t n_tiles = tile.few ? reference_.few_n_tiles : reference_.n_tiles;
    if (row == nullptr || tile.n_tile >= n_tiles) return false;
    const ReferenceSegment& segment = reference_.segments[static_cast<std::size_t>(tile.expert)];
    // Tiles of one expert are contiguous, in the order of tile_order.hpp.
    const std::int64_t m_tiles = reference_.m_tiles[static_cast<std::size_t>(tile.expert)];
    const std::int64_t local = tile.few ? tile.n_tile
                                        : tile_index<std::int64_t>({tile.m_tile, tile.n_tile},
                                                                   m_tiles, n_tiles, case_.group_m);
    const auto [expected_tile, side] = reference_.order[static_cast<std::size_t>(index)];
    std::int64_t& done = columns_done[static_cast<std::size_t>(row->first_seen + tile.n_tile)];
    return expected_tile == row->first_index + local && tile.half == (side >= 0) &&
           tile.row_begin == segment.begin + row->begin && tile.rows == row->rows &&
           tile.segment_end == segment.begin + segment.rows && tile.row_begin >= 0 &&
           tile.row_begin + tile.rows <= case_.max_rows && take_columns(tile, side, width, done);
  }

  static constexpr std::int64_t kAllColumns = kInt64Max;

  /// `done`: −1 before the tile's first piece, then up to where it has columns.
  bool take_columns(const RowTile<Local>& tile, int side, std::int64_t width,
                    std::int64_t& done) const {
    const std::int64_t first = std::int64_t{tile.n_tile} * width;
    const std::int64_t last = std::min(first + width, case_.n);
    if (side == 1 ? done < first : done != -1) return false;
    // A half begins at its place even where no column is left for it.
    if (tile.column_begin != (side == 1 ? first + width / 2 : first)) return false;
    const std::int64_t end = side == 0 ? first + width / 2 : first + width;
    if (tile.columns != std::max<std::int64_t>(std::min(end, case_.n) - tile.column_begin, 0)) {
      return false;
    }
    absent_halves += tile.columns == 0 ? 1 : 0;
    if (tile.columns > 0 && side == 1 && tile.column_begin != done) return false;
    done = tile.columns > 0 ? tile.column_begin + tile.columns : done;
    if (side != 0) done = done == last ? kAllColumns : -1;
    return true;
  }

  const ScheduleCase& case_;
  ReferenceSchedule reference_;
  std::int32_t num_experts_;
  RowTileGrid<Local> grid_;
  std::vector<RowTile<Local>> tiles_;
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
      Coverage<std::int32_t>(c).run(static_cast<std::uint64_t>(i));
    } else {
      Coverage<std::int64_t>(c).run(static_cast<std::uint64_t>(i));
    }
    ASSERT_FALSE(HasFatalFailure())
        << "case " << i << ": E " << c.offs.size() << ", M " << c.max_rows << ", tile " << c.tile_m
        << "x" << c.tile_n << ", few " << c.few_m << "x" << c.few_n << ", workers " << c.num_workers
        << (c.wrong ? ", wrong offsets" : "");
  }
  // The generator must have made what this test is for.
  EXPECT_GT(wrong, 3000);
  EXPECT_GT(large, 10);
  EXPECT_GT(Coverage<std::int32_t>::tiles_checked, 500'000);
  EXPECT_GT(Coverage<std::int64_t>::tiles_checked, 500'000);
  EXPECT_GT(Coverage<std::int32_t>::few_checked, 100'000);
  EXPECT_GT(Coverage<std::int64_t>::few_checked, 100'000);
  EXPECT_GT(Coverage<std::int32_t>::halved_checked, 20'000);
  EXPECT_GT(Coverage<std::int64_t>::halved_checked, 20'000);
  EXPECT_GT(Coverage<std::int32_t>::absent_halves, 1000);
  EXPECT_GT(Coverage<std::int64_t>::absent_halves, 1000);
}

TEST(TileScheduler, NoExpertsOrNoColumnsMeansNoTiles) {
  const std::vector<std::int32_t> offs = {3, 5};
  const std::vector<std::int32_t> no_offs;
  for (const std::int64_t few_m : {0, 3}) {
    const auto no_experts = row_tile_grid(0, 8, 16, {4, 4, 8, few_m, 2});
    EXPECT_FALSE(RowTileCursor(CheckedSpan(no_offs), no_experts, 132, 0).valid());
    const auto no_columns = row_tile_grid(2, 8, 0, {4, 4, 8, few_m, 2});
    EXPECT_FALSE(RowTileCursor(CheckedSpan(offs), no_columns, 132, 0).valid());
  }
}

TEST(TileScheduler, MoreWorkersThanTilesLeavesTheRestIdle) {
  // 12 large tiles; eight and two of few rows. From twice the large ones on all of them are halved.
  for (const auto& [grid, workers, tiles] :
       {std::tuple{kToyGrid, 132, 24}, std::tuple{kToyFewGrid, 132, 18},
        std::tuple{kToyGrid, 24, 24}, std::tuple{kToyGrid, 23, 12},
        std::tuple{kToyFewGrid, 15, 10}}) {
    int busy = 0;
    for (std::int64_t worker = 0; worker < workers; ++worker) {
      busy += RowTileCursor(kToy.data(), grid, workers, worker).valid() ? 1 : 0;
    }
    EXPECT_EQ(busy, tiles) << workers;
  }
}

}  // namespace
}  // namespace moesaic::math
