// SPDX-License-Identifier: Apache-2.0
// L0: how two CTAs, a pair, share the schedule of wgrad. Where tiles are about equally long they
// work together: one worker, whose tile has the lines of both, half for each, and the same columns,
// of which each loads half for both. Where a tile has lines for one CTA alone, each takes these and
// half of the columns. Else they work apart, each as a worker by itself: a queue spreads long tiles
// and short ones better than what columns in common save.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::math {

/// Contractions that differ by an eighth at most; without any, longest < shortest.
MOESAIC_HD constexpr bool about_equally_long(std::int32_t shortest, std::int32_t longest) {
  return longest - shortest <= shortest / 8;
}

/// The tiles of pairs that work together, from those of single CTAs: twice the lines. A raster
/// group has as many lines as before.
template <std::signed_integral Local>
MOESAIC_HD constexpr WeightTileGrid<Local> pair_weight_grid(WeightTileGrid<Local> grid) {
  grid.tile_n = static_cast<Local>(2 * grid.tile_n);
  grid.n_tiles = static_cast<Local>(grid.n_tiles / 2 + grid.n_tiles % 2);
  grid.group_n = max<Local>(1, static_cast<Local>(grid.group_n / 2));
  return grid;
}

/// What one CTA of a pair has of a tile. Together, n_count or k_count may be 0, and what begins
/// there past N or K; the steps are to be gone through all the same.
template <std::signed_integral Local = std::int64_t>
struct WeightPairTile : WeightTile<Local> {
  bool together = false;
};

/// What CTA `cta`, 0 or 1, has of a tile of pair_weight_grid(), where they work together.
template <std::signed_integral Local>
MOESAIC_HD constexpr WeightPairTile<Local> weight_pair_tile(const WeightTile<Local>& tile,
                                                            const WeightTileGrid<Local>& grid,
                                                            int cta) {
  const auto height = static_cast<Local>(grid.tile_n / 2);
  if (!tile.half && tile.n_count <= height) return {half_of(tile, grid, cta), true};
  const auto above = static_cast<Local>(cta * height);
  WeightPairTile<Local> own{tile, true};
  own.n_begin += above;
  own.n_count = max<Local>(0, min<Local>(height, static_cast<Local>(tile.n_count - above)));
  return own;
}

/// How many columns each CTA loads for both: CTA 0 the first, CTA 1 as many that follow. 0: each
/// loads all that it has for itself, no more than a half.
template <std::signed_integral Local>
MOESAIC_HD constexpr Local weight_pair_share(const WeightTileGrid<Local>& grid,
                                             const WeightPairTile<Local>& own) {
  return own.together && !own.half ? static_cast<Local>(grid.tile_k / 2) : 0;
}

}  // namespace moesaic::math
