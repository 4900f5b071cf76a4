// SPDX-License-Identifier: Apache-2.0
// A model of workers that take tiles at a price, its bounds, and histograms to try it on. See
// makespan_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "math/checked_span.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::math {

// ---- Prices, in cycles

inline constexpr std::int64_t kStepCycles = 1024;  ///< 128 × 256 × 64 at the peak of one SM.
inline constexpr std::int64_t kTileCycles = 600;   ///< What a tile costs beside its steps.
inline constexpr std::int64_t kTileM = 128, kTileN = 256, kBlockK = 64, kGroup = 8;
inline constexpr std::int64_t kFewM = 64, kFewN = 128;
inline constexpr int kWorkers = 132;
/// What half of a large tile's columns cost, in hundredths of the whole. NB-0005.
inline constexpr std::int64_t kHalfPercent = 59;

struct PricedTile {
  std::int64_t cycles = 0;
  int level = 0;  ///< The schedule begins with the highest.
  std::int32_t expert = 0;
};
using PricedTiles = std::vector<PricedTile>;

constexpr std::int64_t large_cycles(std::int64_t k_blocks) {
  return k_blocks * kStepCycles + kTileCycles;
}
constexpr std::int64_t few_cycles(std::int64_t k_blocks) {
  return k_blocks * kStepCycles / 4 + kTileCycles;
}

constexpr std::int64_t half_of_cycles(std::int64_t cycles) { return cycles * kHalfPercent / 100; }

struct Problem {
  std::vector<std::int32_t> offs;
  std::int64_t n = 0, k = 0;
};

/// Levels of forward.
enum RowLevel : std::int8_t { few_rows, halves, wholes };

/// Forward, in the order of the schedule for `workers`; one worker halves nothing. Where a large
/// tile's rows end in the first 64, one of the two warpgroups has none.
inline PricedTiles row_tiles(const Problem& problem, std::int64_t few_m, int workers) {
  const auto grid =
      row_tile_grid(static_cast<std::int32_t>(problem.offs.size()), problem.offs.back(), problem.n,
                    {kTileM, kTileN, kGroup, few_m, kFewN});
  const std::int64_t k_blocks = ceil_div(problem.k, kBlockK);
  PricedTiles tiles;
  RowTileCursor cursor(CheckedSpan{problem.offs}, grid, workers, 0);
  for (; cursor.valid(); cursor.seek(cursor.index() + 1)) {
    const RowTile<> tile = cursor.tile();
    const std::int64_t multiplied = tile.rows <= kTileM / 2 ? ceil_div(k_blocks, 2L) : k_blocks;
    const std::int64_t whole = large_cycles(multiplied);
    if (tile.kind == RowTileKind::few) {
      tiles.push_back({few_cycles(k_blocks), few_rows, tile.expert});
    } else if (tile.half) {
      tiles.push_back({half_of_cycles(whole), halves, tile.expert});
    } else {
      tiles.push_back({whole, wholes, tile.expert});
    }
  }
  return tiles;
}

inline PricedTiles weight_tiles(const Problem& problem) {
  const auto grid =
      weight_tile_grid(static_cast<std::int32_t>(problem.offs.size()), problem.offs.back(),
                       problem.n, problem.k, kTileM, kTileN, kBlockK, kGroup);
  PricedTiles tiles;
  WeightTileCursor cursor(CheckedSpan{problem.offs}, grid, 0);
  for (; cursor.valid(); cursor.seek(cursor.index() + 1)) {
    const WeightTile<> tile = cursor.tile();
    int level = 0;  // powers of two, as the header promises
    while ((std::int64_t{1} << level) <= tile.row_blocks) ++level;
    tiles.push_back({large_cycles(tile.row_blocks), level, tile.expert});
  }
  return tiles;
}

// ---- The model

/// When the last worker is done.
inline std::int64_t makespan(const PricedTiles& tiles, int workers) {
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_at;
  for (int worker = 0; worker < workers; ++worker) free_at.push(0);
  std::int64_t end = 0;
  for (const PricedTile& tile : tiles) {
    const std::int64_t done = free_at.top() + tile.cycles;
    free_at.pop();
    free_at.push(done);
    end = std::max(end, done);
  }
  return end;
}

/// The same where workers ask for a tile when they begin the one before, so that the answer is
/// there in time, and where each takes every W-th of the first `in_turns` tiles, and one more,
/// unasked.
inline std::int64_t makespan_asking_early(const PricedTiles& tiles, std::int64_t in_turns,
                                          int workers) {
  struct Worker {
    std::int64_t free_at, next;
    bool operator>(const Worker& other) const {
      return free_at != other.free_at ? free_at > other.free_at : next > other.next;
    }
  };
  std::priority_queue<Worker, std::vector<Worker>, std::greater<>> queue;
  for (int worker = 0; worker < workers; ++worker) queue.push({0, worker});
  const auto total = static_cast<std::int64_t>(tiles.size());
  std::int64_t end = 0;
  for (std::int64_t asked = in_turns + workers; !queue.empty();) {
    Worker worker = queue.top();
    queue.pop();
    if (worker.next >= total) continue;
    worker.free_at += tiles[static_cast<std::size_t>(worker.next)].cycles;
    worker.next = worker.next < in_turns ? worker.next + workers : asked++;
    end = std::max(end, worker.free_at);
    queue.push(worker);
  }
  return end;
}

struct Level {
  std::int64_t tiles = 0, work = 0, longest = 0, shortest = kInt64Max;
};

inline std::map<int, Level, std::greater<>> levels_of(const PricedTiles& tiles) {
  std::map<int, Level, std::greater<>> levels;
  for (const PricedTile& tile : tiles) {
    Level& level = levels[tile.level];
    ++level.tiles;
    level.work += tile.cycles;
    level.longest = std::max(level.longest, tile.cycles);
    level.shortest = std::min(level.shortest, tile.cycles);
  }
  return levels;
}

/// The latest end of a schedule whose levels fall. Before the tile that finishes last no worker is
/// idle, and all that has begun is of its level or a higher one: a W-th of that work without the
/// tile, and then the tile. Levels whose tiles are all alike end in rounds, as long as the levels
/// above filled theirs. The order of `tiles` does not matter here.
inline std::int64_t latest_end(const PricedTiles& tiles, int workers) {
  std::int64_t latest = 0, work = 0, rounds_end = 0;
  bool in_rounds = true;
  for (const auto& [unused, level] : levels_of(tiles)) {
    work += level.work;
    std::int64_t end = (work + (workers - 1) * level.longest) / workers;
    in_rounds = in_rounds && level.shortest == level.longest;
    if (in_rounds) {
      rounds_end += ceil_div<std::int64_t>(level.tiles, workers) * level.longest;
      end = std::min(end, rounds_end);
      in_rounds = level.tiles % workers == 0;
    }
    latest = std::max(latest, end);
  }
  return latest;
}

/// The same for workers that ask early. A tile may begin when the tile before it on the same worker
/// ends, though others are idle by then: one tile of the level later, or one after the end of a
/// higher level.
inline std::int64_t latest_end_asking_early(const PricedTiles& tiles, int workers) {
  std::int64_t latest = 0, work = 0;
  for (const auto& [unused, level] : levels_of(tiles)) {
    work += level.work;
    latest =
        std::max(latest, ceil_div<std::int64_t>(work, workers) + level.longest) + level.longest;
  }
  return latest;
}

/// No order ends earlier: not before the mean, nor before the longest tile, nor before the rounds
/// of a level whose tiles were all as short as its shortest. Where tiles that are alike fill their
/// rounds, any other comes on top of them, or one of them on top of the others.
inline std::int64_t earliest_end(const PricedTiles& tiles, int workers) {
  std::int64_t earliest = 0, work = 0;
  const auto levels = levels_of(tiles);
  for (const auto& [number, level] : levels) {
    work += level.work;
    const std::int64_t rounds = ceil_div<std::int64_t>(level.tiles, workers);
    earliest = std::max({earliest, level.longest, rounds * level.shortest});
    if (level.shortest < level.longest || level.tiles % workers != 0) continue;
    for (const auto& [other_number, other] : levels) {
      if (other_number == number) continue;
      earliest =
          std::max(earliest, rounds * level.longest + std::min(level.longest, other.longest));
    }
  }
  return std::max(earliest, ceil_div<std::int64_t>(work, workers));
}

template <class Before>
PricedTiles reordered(PricedTiles tiles, Before before) {
  std::stable_sort(tiles.begin(), tiles.end(), before);
  return tiles;
}
inline PricedTiles short_first(const PricedTiles& tiles) {
  return reordered(tiles,
                   [](const PricedTile& x, const PricedTile& y) { return x.cycles < y.cycles; });
}
inline PricedTiles expert_by_expert(const PricedTiles& tiles) {
  return reordered(tiles,
                   [](const PricedTile& x, const PricedTile& y) { return x.expert < y.expert; });
}

// ---- Histograms

/// Rows per expert of a kind, shuffled, as offsets.
class Histograms {
 public:
  static constexpr const char* kKinds[] = {"uniform", "one hot", "three hot", "zipf", "ragged"};

  explicit Histograms(std::uint64_t seed) : rng_(seed) {}

  std::vector<std::int32_t> draw(const std::string& kind, std::int64_t experts, std::int64_t mean) {
    const std::int64_t total = experts * mean;
    std::vector<std::int64_t> rows;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (kind == "uniform") rows.push_back(mean);
      if (kind == "one hot") rows.push_back(e < 1 ? total / 2 : 1 + below(2 * kFewM));
      if (kind == "three hot") rows.push_back(e < 3 ? total / 4 : below(mean / 3));
      if (kind == "zipf") rows.push_back(total / (4 * (e + 1)));
      if (kind == "ragged") rows.push_back(below(8) == 0 ? 0 : below(2 * mean));
    }
    std::vector<std::int32_t> offs;
    std::int64_t end = 0;
    for (std::int64_t left = experts; left > 0; --left) {
      std::swap(rows[static_cast<std::size_t>(below(left))],
                rows[static_cast<std::size_t>(left - 1)]);
      end += rows[static_cast<std::size_t>(left - 1)];
      offs.push_back(static_cast<std::int32_t>(end));
    }
    return offs;
  }

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(limit));
  }

 private:
  std::mt19937_64 rng_;
};

}  // namespace moesaic::math
