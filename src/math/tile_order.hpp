// SPDX-License-Identifier: Apache-2.0
// L0: the order of the tiles of one matrix: groups of `group_m` tile rows, inside a group M
// fastest, so that tiles worked on at the same time share columns of the second operand; N runs
// back and forth from group to group, so that its last columns are still in L2. Index is int32 in
// kernels (an int64 division is a function call there) and must hold m_tiles · n_tiles.
#pragma once

#include <concepts>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

template <std::signed_integral Index>
struct TileCoord {
  Index m_tile = 0;
  Index n_tile = 0;
  bool operator==(const TileCoord&) const = default;
};

/// Index → tile, for 0 ≤ index < m_tiles · n_tiles and group_m ≥ 1 (more than m_tiles means
/// m_tiles).
template <std::signed_integral Index>
MOESAIC_HD constexpr TileCoord<Index> tile_at(Index index, Index m_tiles, Index n_tiles,
                                              Index group_m) {
  // Clamped first, so that group_m · n_tiles cannot exceed the number of tiles.
  const Index group_rows = min(group_m, m_tiles);
  const Index group_tiles = static_cast<Index>(group_rows * n_tiles);
  const Index group = floor_div(index, group_tiles);
  const Index in_group = static_cast<Index>(index - group * group_tiles);
  const Index first_m = static_cast<Index>(group * group_rows);
  const Index rows = min(group_rows, static_cast<Index>(m_tiles - first_m));
  const Index step = floor_div(in_group, rows);
  const bool backwards = group % 2 != 0;
  return {static_cast<Index>(first_m + in_group - step * rows),
          static_cast<Index>(backwards ? n_tiles - 1 - step : step)};
}

/// Tile → index: the inverse of tile_at().
template <std::signed_integral Index>
MOESAIC_HD constexpr Index tile_index(TileCoord<Index> tile, Index m_tiles, Index n_tiles,
                                      Index group_m) {
  const Index group_rows = min(group_m, m_tiles);
  const Index group = static_cast<Index>(tile.m_tile / group_rows);
  const Index first_m = static_cast<Index>(group * group_rows);
  const Index rows = min(group_rows, static_cast<Index>(m_tiles - first_m));
  const bool backwards = group % 2 != 0;
  const Index step = static_cast<Index>(backwards ? n_tiles - 1 - tile.n_tile : tile.n_tile);
  return static_cast<Index>(first_m * n_tiles + step * rows + (tile.m_tile - first_m));
}

}  // namespace moesaic::math
