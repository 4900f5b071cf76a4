// SPDX-License-Identifier: Apache-2.0
// How long the schedule of pairs takes beside that of single CTAs, by the model of
// makespan_model.hpp: a pair is one worker, and its large tile has 256 rows. Time alone: what the
// shared copies save is not in the prices.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "math/makespan_model.hpp"

namespace moesaic::math {
namespace {

constexpr RowTileShape<std::int64_t> kPair{256, 256, 8, kFewM, 2 * kFewN};
constexpr int kPairs = kWorkers / 2;

/// What the pairs of a launch do, in the order of the schedule. A tile that has rows for one CTA is
/// half a tile for each; of a half such rows are the first one's, and both take the steps.
PricedTiles pair_tiles(const Problem& problem) {
  const auto grid = row_tile_grid(static_cast<std::int32_t>(problem.offs.size()),
                                  problem.offs.back(), problem.n, kPair);
  const std::int64_t k_blocks = ceil_div(problem.k, kBlockK), large = large_cycles(k_blocks);
  PricedTiles tiles;
  RowTileCursor cursor(CheckedSpan{problem.offs}, grid, kPairs, 0);
  for (; cursor.valid(); cursor.seek(cursor.index() + 1)) {
    const RowTile<> tile = cursor.tile();
    const int level = tile.kind == RowTileKind::few ? few_rows : tile.half ? halves : wholes;
    const bool half = tile.half || tile.rows <= kTileM;
    tiles.push_back({level == few_rows ? few_cycles(k_blocks)
                     : half            ? half_of_cycles(large)
                                       : large,
                     level, tile.expert});
  }
  return tiles;
}

std::int64_t wholes_of(const PricedTiles& tiles) {
  return std::count_if(tiles.begin(), tiles.end(),
                       [](const PricedTile& tile) { return tile.level == wholes; });
}

/// When the last pair is done: what is not a whole large tile goes to whoever is free, or, had they
/// no queue, all are in turns.
std::int64_t makespan_of_pairs(const Problem& problem, bool queue) {
  const PricedTiles tiles = pair_tiles(problem);
  const auto all = static_cast<std::int64_t>(tiles.size());
  return makespan_asking_early(tiles, queue ? wholes_of(tiles) : all, kPairs);
}

/// The same of single CTAs, whose large tiles are in turns and whose others go to whoever is free.
std::int64_t makespan_of_singles(const Problem& problem) {
  const PricedTiles tiles = row_tiles(problem, kFewM, kWorkers);
  return makespan_asking_early(tiles, wholes_of(tiles), kWorkers);
}

double ratio(const Problem& problem, bool queue = true) {
  return static_cast<double>(makespan_of_pairs(problem, queue)) /
         static_cast<double>(makespan_of_singles(problem));
}

TEST(PairMakespan, TakesAsLongAsSinglesWhereExpertsAreBalancedAndEven) {
  for (const auto& [experts, rows, n] :
       {std::array{16, 512, 4096}, std::array{16, 1024, 4096}, std::array{16, 2048, 4096},
        std::array{16, 8192, 4096}, std::array{4, 16384, 20480}, std::array{8, 12288, 2048}}) {
    Problem problem{{}, n, 4096};
    for (int e = 1; e <= experts; ++e) problem.offs.push_back(e * rows);
    EXPECT_DOUBLE_EQ(ratio(problem), 1.0) << experts << 'x' << rows << 'x' << n;
  }
}

// Where they are not, what an expert leaves over of 256 rows in place of 128 costs, the more the
// fewer rows it has. That a queue spares: less than as much again.
TEST(PairMakespan, CostsWhatExpertsLeaveOver) {
  struct Bound {
    std::int64_t mean;
    double least, most, for_turns;
  };
  for (const Bound& bound : {Bound{128, 1.05, 1.12, 0.07}, Bound{512, 1.04, 1.09, 0.03},
                             Bound{2048, 1.01, 1.025, 0.01}, Bound{8192, 1.003, 1.01, 0.003}}) {
    Histograms histograms(7);
    double shared = 0, in_turns = 0;
    constexpr int kCases = 60;
    for (int i = 0; i < kCases; ++i) {
      const std::string kind = Histograms::kKinds[1 + i % 4];  // all but uniform
      const Problem problem{histograms.draw(kind, 32, bound.mean), 4096, 4096};
      shared += ratio(problem) / kCases;
      in_turns += ratio(problem, false) / kCases;
    }
    EXPECT_GT(shared, bound.least) << bound.mean;
    EXPECT_LT(shared, bound.most) << bound.mean;
    EXPECT_LT(in_turns - shared, bound.for_turns) << bound.mean;
  }
}

}  // namespace
}  // namespace moesaic::math
