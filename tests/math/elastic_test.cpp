// SPDX-License-Identifier: Apache-2.0
// Elastic sequences, by a model whose workers are not equally fast, as SMs are where power is short
// (NB-0015): what it is worth to leave the last rounds to whoever is free.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "math/row_tile_sequence.hpp"

namespace moesaic::math {
namespace {

constexpr RowTileColumns kDealt{16, false, false}, kElastic{16, false, true};

// 2,048 tiles are 31 rounds of 66 and two, which are halved.
static_assert(large_sequence(128, kElastic, 66) == RowTileSequence{{2046, 2}, 1980, 0});
static_assert(large_sequence(128, kDealt, 66).large_in_turns == 2046);
static_assert(large_sequence(128, kElastic, 132) == large_sequence(128, kDealt, 132), "15 rounds");
static_assert(large_sequence(132, kElastic, 132).large_in_turns == 1980, "16 rounds");
static_assert(large_sequence(140, kElastic, 132).large_in_turns == 1980, "and 128 tiles");
static_assert(large_sequence(0, kElastic, 132) == RowTileSequence{});
static_assert(large_sequence(std::int64_t{1} << 31, {1 << 20, false, true}, 65'535) ==
                  RowTileSequence{{(std::int64_t{1} << 51) - 8, 8},
                                  (std::int64_t{1} << 51) - (std::int64_t{1} << 47) + 32'760,
                                  0},
              "past 2^32 tiles");

/// When the last worker is done, where a large tile takes worker w `pace[w]`, half a tile half.
double makespan(std::int64_t tile_rows, const RowTileColumns& columns,
                const std::vector<double>& pace) {
  const auto workers = static_cast<std::int64_t>(pace.size());
  const RowTileSequence sequence = large_sequence(tile_rows, columns, workers);
  const std::int64_t end =
      sequence.first_shared() + sequence.large.pieces() - sequence.large_in_turns;
  std::vector<RowTurns> turns;
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> free_at;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    turns.emplace_back(sequence, columns, workers, worker);
    free_at.push({0, static_cast<std::size_t>(worker)});
  }
  double last = 0;
  std::int64_t asked = 0, done = 0;
  while (!free_at.empty()) {
    const auto [now, worker] = free_at.top();
    free_at.pop();
    RowTurns& own = turns[worker];
    if (own.index() >= end) continue;
    const bool half = place_of(sequence, own.index()).side >= 0;
    ++done;
    const double then = now + pace[worker] * (half ? 0.5 : 1);
    own.advance(own.shared() ? asked++ : 0);
    last = std::max(last, then);
    free_at.push({then, worker});
  }
  EXPECT_EQ(done, sequence.large.pieces());
  return last;
}

TEST(Elastic, SlowWorkersTakeFewerTiles) {
  std::mt19937 random(15);
  std::vector<double> pace(132);
  for (double& one : pace) one = std::uniform_real_distribution<>(0.98, 1.02)(random);
  for (const std::int64_t tile_rows : {256, 512, 1024}) {
    const double dealt = makespan(tile_rows, kDealt, pace),
                 elastic = makespan(tile_rows, kElastic, pace);
    EXPECT_LT(elastic, 0.995 * dealt) << tile_rows;
    // All work at the mean of their rates is the bound, and a tile too late the most.
    double rate = 0;
    for (const double one : pace) rate += 1 / one;
    EXPECT_LT(elastic, static_cast<double>(tile_rows) * 16 / rate + 1.02) << tile_rows;
  }
}

TEST(Elastic, CostsNothingWhereAllAreEquallyFast) {
  const std::vector<double> pace(132, 1.0);
  for (std::int64_t tile_rows = 1; tile_rows < 600; ++tile_rows) {
    ASSERT_LE(makespan(tile_rows, kElastic, pace), makespan(tile_rows, kDealt, pace)) << tile_rows;
  }
}

}  // namespace
}  // namespace moesaic::math
