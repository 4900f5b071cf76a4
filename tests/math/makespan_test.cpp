// SPDX-License-Identifier: Apache-2.0
// How long the schedules take: a model of workers that take the next index whenever they are free,
// with a price per tile. In any order the tile that finishes last begins while no worker is idle,
// so all is over one tile past the mean. What long tiles first add: that tile is a short one, or
// else the long ones alone take as long. Other orders break these bounds, as the tests show. And
// what halving the large tiles of the last round is good for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "math/makespan_model.hpp"

namespace moesaic::math {
namespace {

/// How often each kind of histogram, in other orders, ends past what the schedule promises.
struct Violations {
  std::map<std::string, int> short_first, expert_by_expert;

  void count(const std::string& kind, const PricedTiles& tiles, std::int64_t latest) {
    short_first[kind] += makespan(math::short_first(tiles), kWorkers) > latest ? 1 : 0;
    expert_by_expert[kind] += makespan(math::expert_by_expert(tiles), kWorkers) > latest ? 1 : 0;
  }
};

// ---- Forward

/// Tiles that workers take in turns where rounds are few: whole large ones.
std::int64_t wholes_of(const PricedTiles& tiles) {
  return std::count_if(tiles.begin(), tiles.end(),
                       [](const PricedTile& tile) { return tile.level == wholes; });
}

TEST(Makespan, RowTilesEndAtMostOneTileOfFewRowsPastTheBestOrder) {
  Histograms histograms(1);
  Violations violations;
  int halved = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string kind = Histograms::kKinds[i % 5];
    const std::int64_t experts = std::int64_t{4} << histograms.below(6);
    const std::int64_t mean = 8 + histograms.below(600);
    const Problem problem{histograms.draw(kind, experts, mean), 64 + 8 * histograms.below(256),
                          64 + 8 * histograms.below(512)};
    const std::int64_t few = few_cycles(ceil_div(problem.k, kBlockK));
    for (const int workers : {1, 2, 7, kWorkers}) {
      const PricedTiles tiles = row_tiles(problem, kFewM, workers);
      halved += levels_of(tiles).count(halves) != 0 ? 1 : 0;
      const std::int64_t end = makespan(tiles, workers);
      ASSERT_LE(end, latest_end(tiles, workers)) << kind << ' ' << i << " workers " << workers;
      ASSERT_LE(end, earliest_end(tiles, workers) + few) << kind << ' ' << i;
      ASSERT_GE(end, earliest_end(tiles, workers)) << "the bound of all orders is wrong";
      ASSERT_LE(makespan_asking_early(tiles, wholes_of(tiles), workers),
                earliest_end(tiles, workers) + 2 * few)
          << "large tiles in turns: " << kind << ' ' << i;
    }
    const PricedTiles tiles = row_tiles(problem, kFewM, kWorkers);
    violations.count(kind, tiles, latest_end(tiles, kWorkers));
    // One size of tile, or tiles of at most 16 rows: leftover rows are large tiles, some half
    // empty.
    for (const std::int64_t few_m : {0, 16}) {
      const PricedTiles other = row_tiles(problem, few_m, kWorkers);
      ASSERT_LE(makespan(other, kWorkers), latest_end(other, kWorkers)) << kind << ' ' << i;
    }
  }
  EXPECT_GT(halved, 200);
  for (const char* kind : Histograms::kKinds) {
    EXPECT_GT(violations.short_first[kind], 10) << kind << ": the bound does not need the order";
    EXPECT_GT(violations.expert_by_expert[kind], 10) << kind;
  }
}

TEST(Makespan, TilesOfFewRowsFillWhatLargeOnesLeaveIdle) {
  // 100 large tiles, too many to be halved, and 64 experts of 10 rows, each two tiles of few rows:
  // four for each other worker.
  Problem problem{{static_cast<std::int32_t>(100 * kTileM)}, 256, 1024};
  for (int e = 0; e < 64; ++e) problem.offs.push_back(problem.offs.back() + 10);
  const PricedTiles tiles = row_tiles(problem, kFewM, kWorkers);
  ASSERT_EQ(tiles.size(), 100U + 128U);
  EXPECT_EQ(makespan(tiles, kWorkers), 4 * few_cycles(16));
  EXPECT_EQ(makespan(short_first(tiles), kWorkers), few_cycles(16) + large_cycles(16));
}

// ---- Halves

TEST(Makespan, HalvingLargeTilesNeverTakesLongerAndSavesWhereTheLastRoundIsAtMostHalfFull) {
  for (const int workers : {1, 2, 3, 7, 24, kWorkers}) {
    for (int tiles = 1; tiles <= 3 * workers + 1; ++tiles) {
      const Problem problem{{static_cast<std::int32_t>(tiles * kTileM)}, kTileN, 2048};
      const PricedTiles whole = row_tiles(problem, kFewM, 1);
      const PricedTiles halved = row_tiles(problem, kFewM, workers);
      const std::int64_t tile = large_cycles(32);
      const int rest = tiles % workers;
      const bool saves = rest >= 1 && rest <= workers / 2;
      const std::int64_t saved = saves ? tile - half_of_cycles(tile) : 0;
      ASSERT_EQ(makespan(whole, workers), (tiles + workers - 1) / workers * tile);
      ASSERT_EQ(makespan(halved, workers), makespan(whole, workers) - saved)
          << tiles << " tiles of " << workers;
      ASSERT_EQ(makespan_asking_early(halved, wholes_of(halved), workers),
                makespan(halved, workers));
    }
  }
}

/// Two halves cost more than the whole. Where tiles of few rows would have filled the last round,
/// that is work for all: never more than this.
std::int64_t most_that_halving_costs(const PricedTiles& whole, const PricedTiles& halved,
                                     int workers) {
  std::int64_t more = 0;
  for (const PricedTile& tile : halved) more += tile.cycles;
  for (const PricedTile& tile : whole) more -= tile.cycles;
  return ceil_div<std::int64_t>(more, workers);
}

TEST(Makespan, HalvingBesideTilesOfFewRowsCostsNoMoreThanItsWork) {
  Histograms histograms(3);
  std::int64_t sum_whole = 0, sum_halved = 0;
  int shorter = 0, longer = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string kind = Histograms::kKinds[i % 5];
    const Problem problem{
        histograms.draw(kind, std::int64_t{4} << histograms.below(6), 8 + histograms.below(600)),
        64 + 8 * histograms.below(256), 64 + 8 * histograms.below(512)};
    const std::int64_t k_blocks = ceil_div(problem.k, kBlockK);
    const PricedTiles whole = row_tiles(problem, kFewM, 1);
    const PricedTiles halved = row_tiles(problem, kFewM, kWorkers);
    const std::int64_t before = makespan(whole, kWorkers), after = makespan(halved, kWorkers);
    const std::int64_t most = most_that_halving_costs(whole, halved, kWorkers);
    ASSERT_LE(most, large_cycles(k_blocks) * (2 * kHalfPercent - 100) / 200 + 1)
        << "at most half the workers' tiles are halved";
    ASSERT_LE(after, before + most + few_cycles(k_blocks)) << kind << ' ' << i;
    sum_whole += before;
    sum_halved += after;
    shorter += after < before ? 1 : 0;
    longer += after > before ? 1 : 0;
  }
  EXPECT_GT(shorter, 4 * longer);
  EXPECT_LT(100 * sum_halved, 98 * sum_whole);
}

// ---- wgrad

TEST(Makespan, WeightTilesEndOneTilePastTheWorkOfTheirClassAndLongerOnes) {
  Histograms histograms(2);
  Violations violations;
  for (int i = 0; i < 400; ++i) {
    const std::string kind = Histograms::kKinds[i % 5];
    const std::int64_t experts = std::int64_t{4} << histograms.below(6);
    const std::int64_t mean = 8 + histograms.below(2000);
    const Problem problem{histograms.draw(kind, experts, mean), 64 + 8 * histograms.below(256),
                          64 + 8 * histograms.below(256)};
    const PricedTiles tiles = weight_tiles(problem);
    for (const int workers : {1, 2, 7, kWorkers}) {
      const std::int64_t end = makespan(tiles, workers);
      ASSERT_LE(end, latest_end(tiles, workers)) << kind << ' ' << i << " workers " << workers;
      ASSERT_GE(end, earliest_end(tiles, workers)) << "the bound of all orders is wrong";
      ASSERT_LE(makespan_asking_early(tiles, 0, workers), latest_end_asking_early(tiles, workers))
          << kind << ' ' << i << " workers " << workers;
    }
    violations.count(kind, tiles, latest_end(tiles, kWorkers));
  }
  for (const std::string kind : {"one hot", "three hot", "zipf", "ragged"}) {
    EXPECT_GT(violations.short_first[kind], 20) << kind << ": the bound does not need the order";
    EXPECT_GT(violations.expert_by_expert[kind], 20) << kind;
  }
  EXPECT_EQ(violations.short_first["uniform"], 0) << "one class: every order is the same";
}

/// Lengths that differ by an eighth at most are taken in turns.
TEST(Makespan, WeightTilesOfAboutTheSameLengthInTurnsEndAnEighthPastTheBestOrder) {
  Histograms histograms(4);
  int longer = 0;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t shortest = 1 + histograms.below(64);
    const std::int64_t longest = shortest + shortest / 8;
    Problem problem{{}, 64 + 8 * histograms.below(256), 64 + 8 * histograms.below(256)};
    std::int64_t end = 0;
    for (std::int64_t e = 4 + histograms.below(60); e > 0; --e) {
      end += kBlockK * (shortest + histograms.below(longest - shortest + 1));
      problem.offs.push_back(static_cast<std::int32_t>(end));
    }
    const PricedTiles tiles = weight_tiles(problem);
    const auto total = static_cast<std::int64_t>(tiles.size());
    for (const int workers : {1, 2, 7, kWorkers}) {
      const std::int64_t rounds = ceil_div<std::int64_t>(total, workers);
      const std::int64_t in_turns = makespan_asking_early(tiles, total, workers);
      ASSERT_LE(in_turns, rounds * large_cycles(longest)) << i << " workers " << workers;
      ASSERT_LE(8 * in_turns, 9 * rounds * large_cycles(shortest)) << i;
      ASSERT_GE(in_turns, rounds * large_cycles(shortest)) << "no order ends earlier";
      longer += in_turns > makespan(tiles, workers) ? 1 : 0;
    }
  }
  EXPECT_GT(longer, 100) << "or turns would be as good as a queue, and the bound says nothing";
}

/// `hot` experts of 128 pipeline steps and `tiny` ones of one, the hot ones in between; 36 tiles
/// each.
Problem hot_and_tiny(int hot, int tiny) {
  Problem problem{{}, 1536, 768};
  std::int32_t end = 0;
  for (int e = 0; e < hot + tiny; ++e) {
    const bool is_hot = e >= tiny / 2 && e < tiny / 2 + hot;
    problem.offs.push_back(end += is_hot ? 128 * 64 : 64);
  }
  return problem;
}

TEST(Makespan, OneHotExpertAmongManyTinyEndsOneTinyTilePastTheMean) {
  const PricedTiles tiles = weight_tiles(hot_and_tiny(1, 255));
  const std::int64_t mean = (36 * large_cycles(128) + 255 * 36 * large_cycles(1)) / kWorkers;
  ASSERT_GT(mean, large_cycles(128)) << "the hot expert alone would be the bound";
  EXPECT_LE(makespan(tiles, kWorkers), mean + large_cycles(1));
  EXPECT_GT(makespan(short_first(tiles), kWorkers), mean * 3 / 2);
  EXPECT_GT(makespan(expert_by_expert(tiles), kWorkers), mean + large_cycles(1));
}

TEST(Makespan, TinyExpertsTakeNoTimeBesideThreeHotOnes) {
  // 108 long tiles; the other 24 workers have the time for 29 · 36 short ones.
  const PricedTiles tiles = weight_tiles(hot_and_tiny(3, 29));
  EXPECT_EQ(makespan(tiles, kWorkers), large_cycles(128));
  EXPECT_GT(makespan(short_first(tiles), kWorkers), large_cycles(128));
}

}  // namespace
}  // namespace moesaic::math
