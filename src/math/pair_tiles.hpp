// SPDX-License-Identifier: Apache-2.0
// L0: how two CTAs, a pair, share a tile of forward or dgrad that has both their rows and one's
// columns. Each takes half of the rows and all columns; where the tile has rows for one CTA alone,
// each takes these and half of the columns. What both read, each loads half of for both. So both
// have the same kind of work in the same number of steps, whatever the rows.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"
#include "math/tile_scheduler.hpp"

namespace moesaic::math {

/// What both CTAs read of a tile: columns of the second operand or rows of the first.
enum class PairShares : std::int8_t { nothing, columns, rows };

/// A CTA's tile, half of the pair's. `rows` or `columns` may be 0, and what begins there may be
/// past all that exists; the steps are to be gone through all the same.
template <std::signed_integral Local = std::int64_t>
struct PairTile : RowTile<Local> {
  PairShares shares = PairShares::nothing;
};

/// What CTA `cta`, 0 or 1, has of a tile of a grid whose shape has even tile_m, tile_n and few_n,
/// with few_m < tile_m / 2.
template <std::signed_integral Local>
MOESAIC_HD constexpr PairTile<Local> pair_tile(const RowTile<Local>& tile,
                                               const RowTileShape<Local>& shape, int cta) {
  const bool few = tile.kind == RowTileKind::few;
  const auto height = static_cast<Local>(shape.tile_m / 2);
  PairTile<Local> own{tile};
  if (!few && (tile.half || tile.rows > height)) {
    own.shares = PairShares::columns;
    const auto above = static_cast<Local>(cta * height);
    own.row += above;
    own.row_begin += above;
    own.rows = max<Local>(0, min<Local>(height, static_cast<Local>(tile.rows - above)));
  } else {
    own.shares = few ? PairShares::nothing : PairShares::rows;
    own.half = !few;
    const auto width = static_cast<Local>((few ? shape.few_n : shape.tile_n) / 2);
    const auto left = static_cast<Local>(cta * width);
    own.column_begin += left;
    own.columns = max<Local>(0, min<Local>(width, static_cast<Local>(tile.columns - left)));
  }
  return own;
}

/// How many rows or columns each CTA loads for both: CTA 0 the first, CTA 1 as many that follow.
template <std::signed_integral Local>
MOESAIC_HD constexpr Local pair_share(const RowTileShape<Local>& shape,
                                      const PairTile<Local>& own) {
  if (own.shares == PairShares::columns) {
    return static_cast<Local>(shape.tile_n / (own.half ? 4 : 2));
  }
  return own.shares == PairShares::rows ? static_cast<Local>(shape.tile_m / 4) : 0;
}

}  // namespace moesaic::math
