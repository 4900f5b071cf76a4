// SPDX-License-Identifier: Apache-2.0
#include "math/tile_scheduler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "math/checked_span.hpp"
#include "math/row_schedule_reference.hpp"
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
static_assert(toy_tile(kToyGrid, 1, 1, 9) ==
              ToyTile{2, RowTileKind::large, false, 1, 1, 2, 7, 1, 8, 2, 2});
static_assert(toy_tile(kToyGrid, 1, 9, 9) == toy_tile(kToyGrid, 1, 0, 9));
static_assert(count_row_tiles(kToy.data(), kToyFewGrid) == 10, "eight large ones and two");
static_assert(toy_tile(kToyFewGrid, 1, 0, 7) ==
              ToyTile{3, RowTileKind::large, false, 0, 1, 0, 8, 2, 10, 2, 2});
static_assert(toy_tile(kToyFewGrid, 1, 7, 8) ==
              ToyTile{0, RowTileKind::few, false, 0, 0, 0, 0, 1, 1, 0, 4});
static_assert(toy_tile(kToyFewGrid, 1, 0, 9) ==
              ToyTile{2, RowTileKind::few, false, 1, 0, 2, 7, 1, 8, 0, 4});
static_assert(toy_valid(kToyFewGrid, 1, 9) && !toy_valid(kToyFewGrid, 1, 10) &&
              !toy_valid(kToyFewGrid, 1, kInt64Max));
static_assert(toy_tile(kToyGrid, 1, 0, 0).valid() && !RowTile<>{}.valid());

// Eight large tiles of seven workers: the eighth, 3/0/1, is halved before the two of few rows.
static_assert(toy_tile(kToyFewGrid, 7, 0, 6) == toy_tile(kToyFewGrid, 1, 0, 6));
static_assert(toy_tile(kToyFewGrid, 7, 6, 7) ==
              ToyTile{3, RowTileKind::large, true, 0, 1, 0, 8, 2, 10, 2, 1});
static_assert(toy_tile(kToyFewGrid, 7, 0, 8) ==
              ToyTile{3, RowTileKind::large, true, 0, 1, 0, 8, 2, 10, 3, 1});
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
                                    static_cast<Local>(c.few_n), c.spread, c.elastic})) {}

  void run(std::uint64_t seed) {
    const auto row_tiles =
        static_cast<std::int64_t>(reference_.rows[0].size() + reference_.rows[1].size());
    ASSERT_EQ(count_row_tiles(CheckedSpan(case_.offs), grid_), reference_.total());
    ASSERT_LE(row_tiles, max_row_tiles_any_offsets(case_.max_rows, num_experts_, case_.tile_m));
    if (!case_.wrong) {
      ASSERT_LE(row_tiles, max_row_tiles(case_.max_rows, num_experts_, case_.tile_m));
    }
    step_by_step();
    if (::testing::Test::HasFatalFailure()) return;
    share_out(seed);
    tiles_checked += reference_.total();
    few_checked += reference_.tiles_of(RowTileKind::few);
    few_in_turns += reference_.few_in_turns;
    halved_checked += reference_.halved;
  }

  static inline std::int64_t tiles_checked = 0, few_checked = 0, few_in_turns = 0;
  static inline std::int64_t halved_checked = 0, absent_halves = 0;

 private:
  void step_by_step() {
    // How many pieces of each tile were there; its halves follow one another.
    std::array<std::vector<int>, 2> pieces;
    for (const RowTileKind kind : kKinds) {
      pieces[static_cast<std::size_t>(kind)].resize(
          static_cast<std::size_t>(reference_.tiles_of(kind)));
    }
    std::int64_t index = 0;
    RowTileCursor cursor(CheckedSpan(case_.offs), grid_, case_.num_workers, 0);
    ASSERT_EQ(cursor.sequence().large_in_turns, reference_.large_in_turns);
    ASSERT_EQ(cursor.sequence().few_in_turns, reference_.few_in_turns);
    for (; cursor.valid(); cursor.seek(++index)) {
      const RowTile<Local> tile = cursor.tile();
      ASSERT_EQ(cursor.index(), index);
      ASSERT_LT(index, indices());
      ASSERT_TRUE(fits_reference(tile, index)) << "tile " << index;
      const auto [kind, ordinal, side] = reference_.order[static_cast<std::size_t>(index)];
      pieces[static_cast<std::size_t>(kind)][static_cast<std::size_t>(ordinal)] += side < 0 ? 2 : 1;
      tiles_.push_back(tile);
    }
    ASSERT_EQ(index, indices());
    for (const auto& of_kind : pieces) {
      ASSERT_EQ(std::count(of_kind.begin(), of_kind.end(), 2),
                static_cast<std::int64_t>(of_kind.size()))
          << "a tile, or a part of one, is missing";
    }
  }

  [[nodiscard]] std::int64_t indices() const {
    return static_cast<std::int64_t>(reference_.order.size());
  }

  /// Workers that skip what others take come to the same tiles, and together to all of them: some
  /// in turns, what follows by whoever is free.
  void share_out(std::uint64_t seed) {
    using Cursor = RowTileCursor<CheckedSpan<const std::int32_t>, Local>;
    std::vector<Cursor> cursors;
    std::vector<RowTurns> turns;
    for (std::int64_t worker = 0; worker < case_.num_workers; ++worker) {
      cursors.emplace_back(CheckedSpan(case_.offs), grid_, case_.num_workers, worker);
      turns.emplace_back(cursors.back().sequence(), grid_.columns(), case_.num_workers, worker);
    }
    const std::int64_t shared = reference_.in_turns() + case_.num_workers;
    std::int64_t asked = 0, different = 0;
    std::vector<std::uint8_t> taken(reference_.order.size(), 0);
    take_turns(indices(), reference_.turns, shared, seed,
               [&](std::int64_t worker, std::int64_t index) {
                 Cursor& cursor = cursors[static_cast<std::size_t>(worker)];
                 RowTurns& turn = turns[static_cast<std::size_t>(worker)];
                 cursor.seek(index);
                 const bool valid = index < indices();
                 const auto at = static_cast<std::size_t>(index);
                 if (valid) ++taken[at];
                 const bool same = turn.index() == index && cursor.valid() == valid &&
                                   (!valid || cursor.tile() == tiles_[at]);
                 different += same ? 0 : 1;
                 if (valid) turn.advance(turn.shared() ? asked++ : 0);
               });
    ASSERT_EQ(different, 0) << "cursors that skip and the one that steps disagree";
    ASSERT_EQ(std::count(taken.begin(), taken.end(), 1), indices());
  }

  const ReferenceTileRow* find_row(const RowTile<Local>& tile) const {
    const auto& rows = reference_.rows_of(tile.kind);
    const auto row = std::lower_bound(
        rows.begin(), rows.end(), tile, [&](const ReferenceTileRow& r, const RowTile<Local>& t) {
          return r.expert != t.expert ? r.expert < t.expert : r.begin < t.m_tile * case_.tile_m;
        });
    const bool found =
        row != rows.end() && row->expert == tile.expert && row->begin == tile.m_tile * case_.tile_m;
    return found ? &*row : nullptr;
  }

  bool fits_reference(const RowTile<Local>& tile, std::int64_t index) const {
    const auto [kind, ordinal, side] = reference_.order[static_cast<std::size_t>(index)];
    if (!tile.valid() || tile.m_tile < 0 || tile.n_tile < 0 || tile.kind != kind) return false;
    const ReferenceTileRow* row = find_row(tile);
    const std::int64_t columns = reference_.columns_of(kind);
    if (row == nullptr || tile.n_tile >= columns) return false;
    const ReferenceSegment& segment = reference_.segments[static_cast<std::size_t>(tile.expert)];
    // Tiles of one expert and kind are contiguous, in the order of tile_order.hpp.
    const std::int64_t m_tiles = reference_.m_tiles[static_cast<std::size_t>(tile.expert)];
    const std::int64_t local =
        kind == RowTileKind::few
            ? tile.n_tile
            : tile_index<std::int64_t>({tile.m_tile, tile.n_tile}, m_tiles, columns, case_.group_m);
    return ordinal == row->first_of_expert * columns + local && tile.half == (side >= 0) &&
           tile.row_begin == segment.begin + tile.row &&
           tile.segment_end == segment.begin + segment.rows && has_part(tile, *row, side);
  }

  /// All rows, and columns of the whole or of the side that the piece is of. A half begins at its
  /// place even where nothing is left for it.
  bool has_part(const RowTile<Local>& tile, const ReferenceTileRow& row, int side) const {
    const std::int64_t width = tile.kind == RowTileKind::few ? case_.few_n : case_.tile_n;
    Span columns{tile.n_tile * width, std::min((tile.n_tile + 1) * width, case_.n)};
    if (side >= 0) columns = half_of_span(columns, width / 2, side);
    const bool absent = columns.count() == 0;
    absent_halves += absent ? 1 : 0;
    return tile.row == row.begin && tile.rows == row.rows && tile.column_begin == columns.begin &&
           tile.columns == columns.count() && (side >= 0 || !absent);
  }

  struct Span {
    std::int64_t begin, end;
    [[nodiscard]] std::int64_t count() const { return std::max<std::int64_t>(end - begin, 0); }
  };
  static Span half_of_span(const Span& all, std::int64_t size, int side) {
    const std::int64_t middle = all.begin + size;
    return side == 0 ? Span{all.begin, std::min(middle, all.end)} : Span{middle, all.end};
  }

  static constexpr RowTileKind kKinds[] = {RowTileKind::large, RowTileKind::few};

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
        << "x" << c.tile_n << ", few " << c.few_m << "x" << c.few_n << (c.spread ? ", spread" : "")
        << (c.elastic ? ", elastic" : "") << ", workers " << c.num_workers
        << (c.wrong ? ", wrong offsets" : "");
  }
  // The generator must have made what this test is for.
  EXPECT_GT(wrong, 3000);
  EXPECT_GT(large, 10);
  EXPECT_GT(Coverage<std::int32_t>::tiles_checked, 500'000);
  EXPECT_GT(Coverage<std::int64_t>::tiles_checked, 500'000);
  EXPECT_GT(Coverage<std::int32_t>::few_checked, 100'000);
  EXPECT_GT(Coverage<std::int64_t>::few_checked, 100'000);
  EXPECT_GT(Coverage<std::int32_t>::few_in_turns, 5000);
  EXPECT_GT(Coverage<std::int64_t>::few_in_turns, 5000);
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
