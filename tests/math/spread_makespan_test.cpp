// SPDX-License-Identifier: Apache-2.0
// What it is worth to spread tiles of few rows among large ones, by a model in which they share the
// memory: a large tile takes its multiplications' time, one of few rows as long as its weights take
// to arrive, of which one SM can take no more than it can, and all of them no more than there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "math/makespan_model.hpp"

namespace moesaic::math {
namespace {

// Bytes of weights a cycle at 1.5 GHz: 4.3 TB/s for few rows (NB-0005), and what one SM may take of
// the 64 that L2 can give it, beside half as many of rows.
constexpr double kMemoryBytes = 2870, kSmBytes = 40;

RowTileGrid<> grid_of(const Problem& problem, bool spread) {
  return row_tile_grid(static_cast<std::int32_t>(problem.offs.size()), problem.offs.back(),
                       problem.n, {kTileM, kTileN, kGroup, kFewM, kFewN, spread, true});
}

/// Workers that go through the schedule: when the last is done, in cycles.
class Simulation {
 public:
  Simulation(const Problem& problem, bool spread)
      : k_blocks_(ceil_div(problem.k, kBlockK)), grid_(grid_of(problem, spread)) {
    for (std::int64_t worker = 0; worker < kWorkers; ++worker) {
      workers_.emplace_back(problem, grid_, worker);
    }
  }

  double run() {
    double now = 0;
    for (Worker& worker : workers_) begin(worker);
    while (true) {
      const double share = std::min(kSmBytes, kMemoryBytes / std::max(streaming_, 1));
      double next = std::numeric_limits<double>::infinity();
      for (const Worker& worker : workers_) {
        if (worker.cursor.valid()) next = std::min(next, worker.left(share));
      }
      if (next == std::numeric_limits<double>::infinity()) return now;
      now += next;
      for (Worker& worker : workers_) {
        if (worker.cursor.valid()) worker.pass(next, share);
      }
      for (Worker& worker : workers_) {
        if (worker.cursor.valid() && worker.done()) end(worker);
      }
    }
  }

 private:
  struct Worker {
    Worker(const Problem& problem, const RowTileGrid<>& grid, std::int64_t number)
        : cursor(CheckedSpan{problem.offs}, grid, kWorkers, number),
          turns(cursor.sequence(), grid.columns(), kWorkers, number) {
      cursor.seek(turns.index());
    }
    /// Cycles until the tile is done, if nothing changes.
    [[nodiscard]] double left(double share) const { return std::max(cycles, bytes / share); }
    void pass(double time, double share) {
      cycles = std::max(0.0, cycles - time);
      bytes = std::max(0.0, bytes - time * share);
    }
    [[nodiscard]] bool done() const { return cycles < 1e-6 && bytes < 1e-3; }

    RowTileCursor<CheckedSpan<const std::int32_t>> cursor;
    RowTurns turns;
    double cycles = 0, bytes = 0;
  };

  void begin(Worker& worker) {
    if (!worker.cursor.valid()) return;
    const RowTile<> tile = worker.cursor.tile();
    const bool few = tile.kind == RowTileKind::few;
    const std::int64_t whole = large_cycles(k_blocks_);
    worker.cycles = static_cast<double>(few         ? few_cycles(k_blocks_)
                                        : tile.half ? half_of_cycles(whole)
                                                    : whole);
    if (tile.columns == 0) worker.cycles = 1;
    worker.bytes = few ? static_cast<double>(k_blocks_ * kBlockK * kFewN * 2) : 0;
    streaming_ += few ? 1 : 0;
  }
  void end(Worker& worker) {
    streaming_ -= worker.cursor.tile().kind == RowTileKind::few ? 1 : 0;
    worker.turns.advance(worker.turns.shared() ? asked_++ : 0);
    worker.cursor.seek(worker.turns.index());
    begin(worker);
  }

  std::int64_t k_blocks_;
  RowTileGrid<> grid_;
  std::vector<Worker> workers_;
  int streaming_ = 0;
  std::int64_t asked_ = 0;
};

/// The time with tiles of few rows between large ones over that with them behind.
double ratio(const Problem& problem) {
  return Simulation(problem, true).run() / Simulation(problem, false).run();
}

Problem problem_of(const std::vector<std::int32_t>& rows, std::int64_t n, std::int64_t k) {
  Problem problem{{}, n, k};
  std::int32_t end = 0;
  for (const std::int32_t count : rows) problem.offs.push_back(end += count);
  return problem;
}

// The loads of the source report's Fig. 72 at 16,384 rows, whose 13 or 15 small experts cost 15 %
// (NB-0013).
TEST(SpreadMakespan, ThreeHotExpertsBesideManyOfFewRows) {
  std::vector<std::int32_t> rows(16, 64);
  rows[0] = rows[5] = rows[10] = 5192;
  rows[13] = rows[14] = rows[15] = 56;
  const double three_hot = ratio(problem_of(rows, 4096, 4096));
  EXPECT_LT(three_hot, 0.97);
  EXPECT_GT(three_hot, 0.85) << "more than all that the small experts take";
}

TEST(SpreadMakespan, RowsLeftOverByEveryExpert) {
  std::vector<std::int32_t> rows(16, 312);  // two large tiles and 48 or 56 rows
  rows[0] = 11'720;
  rows[14] = rows[15] = 304;
  EXPECT_LT(ratio(problem_of(rows, 4096, 4096)), 0.965);
}

TEST(SpreadMakespan, NothingChangesWithoutFewRowsOrWithoutManyRows) {
  EXPECT_EQ(ratio(problem_of(std::vector<std::int32_t>(16, 1024), 4096, 4096)), 1);
  EXPECT_EQ(ratio(problem_of(std::vector<std::int32_t>(32, 40), 5760, 2880)), 1);
}

TEST(SpreadMakespan, GainsInTheMeanAndLosesHardlyEver) {
  Histograms histograms(8);
  double sum = 0, most = 0, least = 2;
  constexpr int kCases = 100;
  for (int i = 0; i < kCases; ++i) {
    const std::string kind = Histograms::kKinds[i % 5];
    const std::int64_t experts = std::int64_t{8} << histograms.below(4);
    const std::int64_t mean = 128 + histograms.below(1920);
    const std::int64_t k = 1024 + 64 * histograms.below(96), n = 1024 + 64 * histograms.below(64);
    const double of_this = ratio({histograms.draw(kind, experts, mean), n, k});
    sum += of_this / kCases;
    most = std::max(most, of_this);
    least = std::min(least, of_this);
  }
  RecordProperty("mean", std::to_string(sum));
  RecordProperty("most", std::to_string(most));
  RecordProperty("least", std::to_string(least));
  EXPECT_LT(sum, 0.975);
  EXPECT_LT(most, 1.04);
  EXPECT_LT(least, 0.85);
}

}  // namespace
}  // namespace moesaic::math
