// SPDX-License-Identifier: Apache-2.0
// How long the schedule of tall tiles takes, by the model of makespan_model.hpp: how far past the
// mean the last worker is done, and what the rounds that are shared are good for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "math/makespan_model.hpp"

namespace moesaic::math {
namespace {

constexpr RowTileShape<std::int64_t> kTall{256, 192, kGroup, kFewM, kFewN, 128};

/// All tiles of a problem, none halved, by kind.
class TallTiles {
 public:
  explicit TallTiles(const Problem& problem)
      : k_blocks_(ceil_div(problem.k, kBlockK)),
        grid_(row_tile_grid(static_cast<std::int32_t>(problem.offs.size()), problem.offs.back(),
                            problem.n, kTall)) {
    for (std::int32_t expert = 0; expert < grid_.num_experts; ++expert) {
      const RowRange segment = expert_rows(CheckedSpan{problem.offs}, expert, grid_.max_rows);
      for (const RowTileKind kind : {RowTileKind::large, RowTileKind::slim, RowTileKind::few}) {
        const std::int64_t tiles =
            grid_.tile_rows(segment, kind == RowTileKind::few) * grid_.columns_of(kind);
        for (std::int64_t local = 0; local < tiles; ++local) {
          of(kind).push_back(row_tile_of_expert(grid_, expert, segment, kind, local));
        }
      }
      tile_rows_ += grid_.m_tiles(segment);
    }
  }

  [[nodiscard]] const RowTileGrid<>& grid() const { return grid_; }
  [[nodiscard]] std::int64_t tile_rows() const { return tile_rows_; }

  /// The price of the piece at an index; −1 past the last. Absent blocks of rows cost nothing, a
  /// half's own ones as much more as in NB-0005.
  [[nodiscard]] std::int64_t cycles(const RowTileSequence& sequence, std::int64_t index) const {
    const RowTilePlace at = place_of(sequence, index);
    const auto& tiles = tiles_[static_cast<std::size_t>(at.kind)];
    if (at.tile >= static_cast<std::int64_t>(tiles.size())) return -1;
    if (at.kind == RowTileKind::few) return few_cycles(k_blocks_);
    const RowTile<>& whole = tiles[static_cast<std::size_t>(at.tile)];
    if (at.side < 0) return whole_cycles(whole);
    const RowTile<> half = half_of(whole, grid_, at.side);
    return half.columns == 0 ? 0 : whole_cycles(half) * 2 * kHalfPercent / 100;
  }
  [[nodiscard]] std::int64_t longest() const {
    return k_blocks_ * kStepCycles * 3 / 2 + kTileCycles;
  }

 private:
  std::vector<RowTile<>>& of(RowTileKind kind) { return tiles_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::int64_t whole_cycles(const RowTile<>& tile) const {
    const std::int64_t blocks = ceil_div<std::int64_t>(tile.rows, 64);
    const std::int64_t panels = ceil_div<std::int64_t>(tile.columns, 64);
    return k_blocks_ * blocks * panels * (kStepCycles / 8) + kTileCycles;
  }

  std::int64_t k_blocks_;
  RowTileGrid<> grid_;
  std::int64_t tile_rows_ = 0;
  std::array<std::vector<RowTile<>>, 3> tiles_;
};

/// Like tall_sequence(), but for so many shared rounds.
RowTileSequence with_shared_rounds(const TallTiles& tiles, std::int64_t rounds) {
  const RowTileColumns columns = tiles.grid().columns();
  const std::int64_t all = tiles.tile_rows() * columns.large;
  const std::int64_t shared = min(all, last_round(all, kWorkers) + rounds * kWorkers);
  RowTileSequence sequence = tall_sequence(tiles.tile_rows(), columns, kWorkers);
  sequence.large_in_turns = all - shared;
  sequence.slim_in_turns =
      all == shared ? 0 : (tiles.tile_rows() - ceil_div(shared, columns.large)) * columns.slim;
  sequence.slim = {sequence.slim_in_turns,
                   tiles.tile_rows() * columns.slim - sequence.slim_in_turns};
  return sequence;
}

struct Makespan {
  std::int64_t end = 0, mean = 0;
  [[nodiscard]] double past_mean() const {
    return static_cast<double>(end) / static_cast<double>(mean) - 1;
  }
};

Makespan makespan_of(const TallTiles& tiles, const RowTileSequence& sequence) {
  using Worker = std::pair<std::int64_t, std::size_t>;  // free at, number
  std::priority_queue<Worker, std::vector<Worker>, std::greater<>> free_at;
  std::vector<RowTurns> turns;
  for (std::int64_t worker = 0; worker < kWorkers; ++worker) {
    turns.emplace_back(sequence, tiles.grid().columns(), kWorkers, worker);
    free_at.push({0, static_cast<std::size_t>(worker)});
  }
  Makespan result;
  for (std::int64_t asked = 0; !free_at.empty();) {
    auto [at, worker] = free_at.top();
    free_at.pop();
    const std::int64_t cycles = tiles.cycles(sequence, turns[worker].index());
    if (cycles < 0) continue;
    result.mean += cycles;
    result.end = std::max(result.end, at + cycles);
    turns[worker].advance(turns[worker].shared() ? asked++ : 0);
    free_at.push({at + cycles, worker});
  }
  result.mean /= kWorkers;
  return result;
}

Makespan makespan_of(const TallTiles& tiles) {
  return makespan_of(tiles, tall_sequence(tiles.tile_rows(), tiles.grid().columns(), kWorkers));
}

TEST(TallMakespan, WithShapesOfReportsEndsOneTilePastTheMean) {
  for (const auto& [experts, rows, n] :
       {std::array{16, 1024, 4096}, std::array{16, 2048, 4096}, std::array{16, 8192, 4096},
        std::array{4, 16384, 20480}, std::array{12, 2304, 3840}, std::array{8, 8192, 2048},
        std::array{32, 2048, 7168}, std::array{8, 2048, 14336}}) {
    Problem problem{{}, n, 4096};
    for (int e = 1; e <= experts; ++e) problem.offs.push_back(e * rows);
    const TallTiles tiles(problem);
    const Makespan makespan = makespan_of(tiles);
    EXPECT_LE(makespan.end, makespan.mean + tiles.longest()) << experts << 'x' << rows << 'x' << n;
  }
}

TEST(TallMakespan, EndsTwoTilesPastTheMeanWhateverTheRows) {
  Histograms histograms(5);
  double shared = 0, in_turns = 0;
  int worse = 0;
  constexpr int kCases = 150;
  for (int i = 0; i < kCases; ++i) {
    const std::string kind = Histograms::kKinds[i % 5];
    const std::int64_t experts = std::int64_t{8} << histograms.below(4);
    const std::int64_t mean = 1024 + histograms.below(3072);
    const std::int64_t n = 1024 + 64 * histograms.below(64);
    const TallTiles tiles({histograms.draw(kind, experts, mean), n, 4096});
    const Makespan makespan = makespan_of(tiles);
    EXPECT_LE(makespan.end, makespan.mean + 2 * tiles.longest()) << kind << ' ' << i;
    const Makespan turns = makespan_of(tiles, with_shared_rounds(tiles, 0));
    shared += makespan.past_mean() / kCases;
    in_turns += turns.past_mean() / kCases;
    worse += turns.end > makespan.end ? 1 : 0;
    EXPECT_EQ(with_shared_rounds(tiles, kSharedRounds),
              tall_sequence(tiles.tile_rows(), tiles.grid().columns(), kWorkers));
  }
  EXPECT_LT(shared, 0.03);
  EXPECT_GT(in_turns, 1.4 * shared) << "or the shared rounds would be for nothing";
  EXPECT_GT(worse, kCases / 2);
}

// Neighbours that read the same columns at the same time save 1.3 % (NB-0005), and sharing ends
// that.
TEST(TallMakespan, MoreSharedRoundsGainLessThanTurnsSave) {
  Histograms histograms(6);
  double two = 0, all = 0;
  constexpr int kCases = 100;
  for (int i = 0; i < kCases; ++i) {
    const std::string kind = Histograms::kKinds[i % 5];
    const TallTiles tiles({histograms.draw(kind, 16, 1024 + histograms.below(3072)), 4096, 4096});
    two += makespan_of(tiles).past_mean() / kCases;
    all += makespan_of(tiles, with_shared_rounds(tiles, 1000)).past_mean() / kCases;
  }
  EXPECT_LT(two - all, 0.013) << two << ' ' << all;
}

}  // namespace
}  // namespace moesaic::math
