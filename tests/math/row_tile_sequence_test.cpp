// SPDX-License-Identifier: Apache-2.0
// In which order tiles come, and what one worker takes of them. The order as a whole:
// tile_scheduler_test.cpp.
#include "math/row_tile_sequence.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace moesaic::math {
namespace {

// ---- The order

// 128 tile rows of 4096 columns on 66 workers: 2,048 large tiles are 31 rounds, of which one is
// shared, and two.
constexpr RowTileSequence kElastic = large_sequence(128, {16, false, true}, 66);
static_assert(kElastic == RowTileSequence{{2046, 2}, 1980, 0});
static_assert(kElastic.first_shared() == 1980);
static_assert(place_of(kElastic, 1979) == RowTilePlace{RowTileKind::large, 1979, -1});
static_assert(place_of(kElastic, 1980) == RowTilePlace{RowTileKind::large, 1980, -1});
static_assert(place_of(kElastic, 2045) == RowTilePlace{RowTileKind::large, 2045, -1});
static_assert(place_of(kElastic, 2046) == RowTilePlace{RowTileKind::large, 2046, 0});
static_assert(place_of(kElastic, 2049) == RowTilePlace{RowTileKind::large, 2047, 1});
static_assert(place_of(kElastic, 2050) == RowTilePlace{RowTileKind::few, 0, -1});

// Spread. 2,640 large tiles are 20 full rounds; all full rounds of few come between them.
constexpr RowTileColumns kSpread{16, true};
constexpr RowTileSequence kFull = large_sequence(165, kSpread, 132, 300);
static_assert(kFull == RowTileSequence{{2640, 0}, 2640, 264});
static_assert(place_of(kFull, 2639) == RowTilePlace{RowTileKind::large, 2639, -1});
static_assert(place_of(kFull, 2640) == RowTilePlace{RowTileKind::few, 0, -1});
static_assert(place_of(kFull, 2903) == RowTilePlace{RowTileKind::few, 263, -1});
static_assert(place_of(kFull, 2904) == RowTilePlace{RowTileKind::few, 264, -1});
// And elastic, where large ones are shared behind them.
constexpr RowTileSequence kBoth = large_sequence(165, {16, true, true}, 132, 300);
static_assert(kBoth == RowTileSequence{{2640, 0}, 2508, 264});
static_assert(place_of(kBoth, 2507) == RowTilePlace{RowTileKind::large, 2507, -1});
static_assert(place_of(kBoth, 2508) == RowTilePlace{RowTileKind::few, 0, -1});
static_assert(place_of(kBoth, 2771) == RowTilePlace{RowTileKind::few, 263, -1});
static_assert(place_of(kBoth, 2772) == RowTilePlace{RowTileKind::large, 2508, -1});
static_assert(place_of(kBoth, 2903) == RowTilePlace{RowTileKind::large, 2639, -1});
static_assert(place_of(kBoth, 2904) == RowTilePlace{RowTileKind::few, 264, -1});
// 120 of the last round are whole: 24 few stay for the 12 workers without one.
static_assert(large_sequence(123, kSpread, 132, 416).few_in_turns == 264);
static_assert(large_sequence(123, kSpread, 132, 420).few_in_turns == 396);
// 64 of the last round are halved: four workers have no half, and keep one each.
static_assert(large_sequence(37, kSpread, 132, 135).few_in_turns == 0);
static_assert(large_sequence(37, kSpread, 132, 136).few_in_turns == 132);
static_assert(large_sequence(33, kSpread, 132, 1000).few_in_turns == 528, "four full rounds");
static_assert(large_sequence(32, kSpread, 132, 1000).few_in_turns == 0, "three, and most of one");
static_assert(large_sequence(165, {16}, 132, 300).few_in_turns == 0, "not spread");

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
    const RowTileColumns columns{1, false, elastic};
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

// As many of few rows as of large ones: every other worker begins with the former.
TEST(RowTurns, NeighboursDoNotTakeFewRowsAtOnce) {
  const RowTileColumns columns{2, true};
  const RowTileSequence sequence = large_sequence(8, columns, 4, 16);
  ASSERT_EQ(sequence.few_in_turns, 16);
  for (std::int64_t worker = 0; worker < 4; ++worker) {
    std::vector<RowTilePlace> expected;
    for (std::int64_t round = 0; round < 4; ++round) {
      const std::int64_t tile = round * 4 + worker;
      expected.push_back({RowTileKind::large, tile, -1});
      expected.insert(expected.end() - (worker % 2), {RowTileKind::few, tile, -1});
    }
    EXPECT_EQ(in_turns(sequence, columns, 4, worker), expected) << worker;
  }
}

TEST(RowTurns, EveryWorkerHasAsManyOfFewRowsAsTheNextAndNearlyAtTheSameTime) {
  for (const std::int64_t tile_rows : {24, 64, 128, 1000}) {
    for (const std::int64_t few_tiles : {100, 300, 1000, 5000}) {
      for (const bool elastic : {false, true}) {
        const RowTileColumns columns{20, true, elastic};
        const RowTileSequence sequence = large_sequence(tile_rows, columns, 132, few_tiles);
        const std::int64_t all_large = sequence.large_in_turns, all_few = sequence.few_in_turns;
        for (std::int64_t worker = 0; worker < 132; ++worker) {
          std::int64_t large = 0, few = 0;
          RowTurns turns(sequence, columns, 132, worker);
          for (; !turns.shared(); turns.advance(0)) {
            const bool is_few = place_of(sequence, turns.index()).kind == RowTileKind::few;
            ++(is_few ? few : large);
            // As evenly as there are large ones, by at most two.
            ASSERT_LE(few * all_large, large * all_few + 2 * all_large) << worker;
            ASSERT_GE(few * all_large + 2 * all_large, large * all_few) << worker;
          }
          ASSERT_EQ(few, all_few / 132) << tile_rows << ' ' << few_tiles << ' ' << worker;
          ASSERT_EQ(large, (all_large - worker + 131) / 132) << tile_rows << ' ' << worker;
        }
      }
    }
  }
}

TEST(RowTurns, WhoAsksTakesWhatNobodyWasGiven) {
  RowTurns turns(kBoth, {16, true, true}, 132, 7);
  while (!turns.shared()) turns.advance(0);
  EXPECT_EQ(turns.index(), 2772 + 7);
  turns.advance(0);
  EXPECT_EQ(turns.index(), 2772 + 132);
  turns.advance(41);
  EXPECT_EQ(turns.index(), 2772 + 132 + 41);
  RowTurns plain(large_sequence(10, {1}, 4), {1}, 4, 1);
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
