// SPDX-License-Identifier: Apache-2.0
// How columns are split, in which order tall tiles come, and what one worker takes of them. The
// order as a whole: tile_scheduler_test.cpp.
#include "math/row_tile_sequence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "math/tile_scheduler.hpp"

namespace moesaic::math {
namespace {

// ---- Columns

constexpr RowTileShape<std::int64_t> kTall{256, 192, 8, 64, 128, 128};
constexpr bool splits(std::int64_t n, std::int64_t large, std::int32_t slim) {
  const RowTileColumns columns = split_columns(n, kTall);
  return columns.large == large && columns.slim == slim;
}
static_assert(splits(4096, 20, 2) && splits(2048, 10, 1) && splits(20480, 106, 1));
static_assert(splits(3840, 20, 0) && splits(7168, 36, 2) && splits(1408, 6, 2));
static_assert(splits(384, 2, 0) && splits(448, 1, 2) && splits(512, 2, 1));
static_assert(splits(192, 1, 0) && splits(128, 0, 1) && splits(8, 0, 1) && splits(256, 0, 2));
static_assert(splits(4097, 21, 1), "no column is left out");
static_assert(split_columns<std::int64_t>(4096, {128, 256, 8, 64, 128}).slim == 0);

TEST(SplitColumns, NothingIsLeftOverFromMultiplesOf64From384On) {
  for (std::int64_t n = 1; n <= 30'000; ++n) {
    const RowTileColumns columns = split_columns(n, kTall);
    const std::int64_t over = columns.large * 192 + std::int64_t{columns.slim} * 128 - n;
    ASSERT_GE(over, 0) << n;
    ASSERT_LE(columns.slim, kMaxSlim);
    const std::int64_t least = round_up<std::int64_t>(n, 64) - n;
    ASSERT_TRUE(n < 384 || over == least) << n;
  }
}

// ---- The order

constexpr RowTileColumns kWide{20, 2};

// 128 tile rows of 4096 columns on 132 workers: 2,560 large tiles are 19 rounds and 52.
constexpr RowTileSequence kReport = tall_sequence(128, kWide, 132);
static_assert(kReport == RowTileSequence{{2508, 52}, {224, 32}, 2244, 224});
static_assert(kReport.first_shared() == 2468);
static_assert(place_of(kReport, 2243) == RowTilePlace{RowTileKind::large, 2243, -1});
static_assert(place_of(kReport, 2244) == RowTilePlace{RowTileKind::slim, 0, -1});
static_assert(place_of(kReport, 2467) == RowTilePlace{RowTileKind::slim, 223, -1});
static_assert(place_of(kReport, 2468) == RowTilePlace{RowTileKind::large, 2244, -1});
static_assert(place_of(kReport, 2731) == RowTilePlace{RowTileKind::large, 2507, -1});
static_assert(place_of(kReport, 2732) == RowTilePlace{RowTileKind::large, 2508, 0});
static_assert(place_of(kReport, 2835) == RowTilePlace{RowTileKind::large, 2559, 1});
static_assert(place_of(kReport, 2836) == RowTilePlace{RowTileKind::slim, 224, 0});
static_assert(place_of(kReport, 2899) == RowTilePlace{RowTileKind::slim, 255, 1});
static_assert(place_of(kReport, 2900) == RowTilePlace{RowTileKind::few, 0, -1});

static_assert(tall_sequence(6, kWide, 132) == RowTileSequence{{120, 0}, {0, 12}, 0, 0},
              "less than two rounds: nothing in turns");
static_assert(tall_sequence(9, {0, 2}, 4) == RowTileSequence{{0, 0}, {0, 18}, 0, 0},
              "no large columns");
static_assert(tall_sequence(0, kWide, 132) == RowTileSequence{});
static_assert(tall_sequence(std::int64_t{1} << 31, {1 << 20, 1}, 65'535).large_in_turns ==
                  (std::int64_t{1} << 51) - std::int64_t{2 * 65'535} -
                      last_round(std::int64_t{1} << 51, 65'535),
              "past 2^32 tiles");

// Spread. 2,640 large tiles are 20 full rounds; all full rounds of few come between them.
constexpr RowTileColumns kSpread{16, 0, true};
static_assert(large_sequence(165, kSpread, 132, 300) ==
              RowTileSequence{{2640, 0}, {}, 2640, 0, 264});
static_assert(place_of(large_sequence(165, kSpread, 132, 300), 2640) ==
              RowTilePlace{RowTileKind::few, 0, -1});
static_assert(place_of(large_sequence(165, kSpread, 132, 300), 2904) ==
              RowTilePlace{RowTileKind::few, 264, -1});
// 120 of the last round are whole: 24 few stay for the 12 workers without one.
static_assert(large_sequence(123, kSpread, 132, 416).few_in_turns == 264);
static_assert(large_sequence(123, kSpread, 132, 420).few_in_turns == 396);
// 64 of the last round are halved: four workers have no half, and keep one each.
static_assert(large_sequence(37, kSpread, 132, 135).few_in_turns == 0);
static_assert(large_sequence(37, kSpread, 132, 136).few_in_turns == 132);
static_assert(large_sequence(8, kSpread, 132, 1000).few_in_turns == 0,
              "no full round of large ones");
static_assert(large_sequence(165, {16, 0}, 132, 300).few_in_turns == 0, "not spread");

// ---- What a worker takes

std::vector<RowTilePlace> in_turns(const RowTileSequence& sequence, const RowTileColumns& columns,
                                   std::int64_t workers, std::int64_t worker) {
  std::vector<RowTilePlace> places;
  RowTurns turns(sequence, columns, workers, worker);
  for (; !turns.shared(); turns.advance(0)) places.push_back(place_of(sequence, turns.index()));
  EXPECT_EQ(turns.index(), sequence.first_shared() + worker);
  return places;
}

TEST(RowTurns, KnowFullRoundsOfLargeTiles) {
  // Ten large tiles are two rounds of four, and two that are halved; 66 are 16 and two, of which
  // the last round is shared where the sequence is elastic.
  for (const auto& [tile_rows, elastic, rounds] :
       {std::tuple{10, false, 2}, {66, false, 16}, {66, true, 15}, {3, false, 0}}) {
    const RowTileColumns columns{1, 0, false, elastic};
    const RowTileSequence sequence = large_sequence(tile_rows, columns, 4);
    for (std::int64_t worker = 0; worker < 4; ++worker) {
      RowTurns turns(sequence, columns, 4, worker);
      for (int round = 0; round < rounds; ++round, turns.advance(0)) {
        EXPECT_TRUE(turns.full_round()) << tile_rows << ' ' << worker << ' ' << round;
        EXPECT_FALSE(turns.shared());
      }
      EXPECT_FALSE(turns.full_round()) << tile_rows << ' ' << worker;
    }
  }
}

TEST(RowTurns, SlimTilesComeWhenTheLargeOnesOfTheirRowsAreDone) {
  // Three tile rows of two large columns and a slim one; one worker; two tiles are shared.
  const RowTileColumns columns{2, 1};
  const RowTileSequence sequence = tall_sequence(3, columns, 1);
  const auto large = [](std::int64_t tile) { return RowTilePlace{RowTileKind::large, tile, -1}; };
  const auto slim = [](std::int64_t tile) { return RowTilePlace{RowTileKind::slim, tile, -1}; };
  EXPECT_EQ(in_turns(sequence, columns, 1, 0),
            (std::vector{large(0), slim(0), large(1), large(2), slim(1), large(3)}));
}

// As many of few rows as of large ones: every other worker begins with the former.
TEST(RowTurns, NeighboursDoNotTakeFewRowsAtOnce) {
  const RowTileColumns columns{2, 0, true};
  const RowTileSequence sequence = large_sequence(4, columns, 4, 8);
  ASSERT_EQ(sequence.few_in_turns, 8);
  for (std::int64_t worker = 0; worker < 4; ++worker) {
    std::vector<RowTilePlace> expected;
    for (std::int64_t round = 0; round < 2; ++round) {
      const std::int64_t tile = round * 4 + worker;
      expected.push_back({RowTileKind::large, tile, -1});
      expected.insert(expected.end() - (worker % 2), {RowTileKind::few, tile, -1});
    }
    EXPECT_EQ(in_turns(sequence, columns, 4, worker), expected) << worker;
  }
}

TEST(RowTurns, EveryWorkerHasAsManyOfEitherKindAsTheNextAndNearlyAtTheSameTime) {
  for (const std::int64_t tile_rows : {24, 64, 128, 1000}) {
    for (const RowTileColumns columns : {RowTileColumns{20, 2}, RowTileColumns{10, 1},
                                         RowTileColumns{106, 1}, RowTileColumns{3, 2}}) {
      const RowTileSequence sequence = tall_sequence(tile_rows, columns, 132);
      const auto first = in_turns(sequence, columns, 132, 0);
      const auto is_slim = [](const RowTilePlace& at) { return at.kind == RowTileKind::slim; };
      const auto most = std::count_if(first.begin(), first.end(), is_slim);
      for (std::int64_t worker = 0; worker < 132; ++worker) {
        const auto mine = in_turns(sequence, columns, 132, worker);
        const auto slim = std::count_if(mine.begin(), mine.end(), is_slim);
        ASSERT_TRUE(slim == most || slim + 1 == most) << tile_rows << ' ' << worker;
        ASSERT_EQ(static_cast<std::int64_t>(mine.size()) - slim, sequence.large_in_turns / 132);
        // The tile row where a large tile would be, of the ordinal alone, never falls, so that a
        // walk goes through the experts once, and its rows of x are still in L2.
        std::int64_t row = 0;
        for (const RowTilePlace& at : mine) {
          const std::int64_t here = at.tile / (is_slim(at) ? columns.slim : columns.large);
          ASSERT_GE(here, row);
          row = here;
        }
      }
    }
  }
}

TEST(RowTurns, WhoAsksTakesWhatNobodyWasGiven) {
  RowTurns turns(kReport, kWide, 132, 7);
  while (!turns.shared()) turns.advance(0);
  EXPECT_EQ(turns.index(), 2468 + 7);
  turns.advance(0);
  EXPECT_EQ(turns.index(), 2468 + 132);
  turns.advance(41);
  EXPECT_EQ(turns.index(), 2468 + 132 + 41);
  RowTurns plain(large_sequence(10, {1, 0}, 4), {1, 0}, 4, 1);
  EXPECT_EQ(plain.index(), 1);
  plain.advance(0);
  EXPECT_EQ(plain.index(), 5);
  plain.advance(0);
  EXPECT_TRUE(plain.shared()) << "8 of 10 tiles are in turns, the two that are left are halved";
  EXPECT_EQ(plain.index(), 9);
  plain.advance(2);
  EXPECT_EQ(plain.index(), 8 + 4 + 2);
}

}  // namespace
}  // namespace moesaic::math
