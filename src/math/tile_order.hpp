// SPDX-License-Identifier: Apache-2.0
// L0: the order of the tiles of one matrix: groups of `group_m` tile rows, inside a group M
// fastest, so that tiles worked on at the same time share columns of the second operand, and where
// `beside` is more than 1, before that so many columns, so that two neighbours share rows of the
// first; N runs back and forth from group to group, so that its last columns are still in L2. Index
// is int32 in kernels (an int64 division is a function call there) and must hold m_tiles · n_tiles.
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

/// How the tiles of a group are gone through: blocks of `beside` columns, inside a block row by
/// row.
template <std::signed_integral Index>
struct TileBlocks {
  Index rows, n_tiles, beside;

  MOESAIC_HD constexpr TileBlocks(Index group_rows, Index columns, Index columns_beside)
      : rows(group_rows),
        n_tiles(columns),
        beside(columns_beside == 1 ? Index{1} : min(columns_beside, columns)) {}
  /// Columns of a block; the last one has what is left.
  [[nodiscard]] MOESAIC_HD constexpr Index width(Index block) const {
    return beside == 1 ? Index{1} : min(beside, static_cast<Index>(n_tiles - block * beside));
  }
};

/// Index → tile, for 0 ≤ index < m_tiles · n_tiles, group_m ≥ 1 (more than m_tiles means m_tiles)
/// and beside ≥ 1 (more than n_tiles means n_tiles).
template <std::signed_integral Index>
MOESAIC_HD constexpr TileCoord<Index> tile_at(Index index, Index m_tiles, Index n_tiles,
                                              Index group_m, Index beside = 1) {
  // Clamped first, so that group_m · n_tiles cannot exceed the number of tiles.
  const Index group_rows = min(group_m, m_tiles);
  const Index group_tiles = static_cast<Index>(group_rows * n_tiles);
  const Index group = static_cast<Index>(index / group_tiles);
  const Index in_group = static_cast<Index>(index - group * group_tiles);
  const Index first_m = static_cast<Index>(group * group_rows);
  const TileBlocks<Index> blocks(min(group_rows, static_cast<Index>(m_tiles - first_m)), n_tiles,
                                 beside);
  const auto block_tiles = static_cast<Index>(blocks.rows * blocks.beside);
  const auto block = static_cast<Index>(in_group / block_tiles);
  const auto in_block = static_cast<Index>(in_group - block * block_tiles);
  const Index width = blocks.width(block);
  const auto m = static_cast<Index>(in_block / width);
  const auto step = static_cast<Index>(block * blocks.beside + in_block - m * width);
  const bool backwards = group % 2 != 0;
  return {static_cast<Index>(first_m + m),
          static_cast<Index>(backwards ? n_tiles - 1 - step : step)};
}

/// Tile → index: the inverse of tile_at().
template <std::signed_integral Index>
MOESAIC_HD constexpr Index tile_index(TileCoord<Index> tile, Index m_tiles, Index n_tiles,
                                      Index group_m, Index beside = 1) {
  const Index group_rows = min(group_m, m_tiles);
  const Index group = static_cast<Index>(tile.m_tile / group_rows);
  const Index first_m = static_cast<Index>(group * group_rows);
  const TileBlocks<Index> blocks(min(group_rows, static_cast<Index>(m_tiles - first_m)), n_tiles,
                                 beside);
  const bool backwards = group % 2 != 0;
  const Index step = static_cast<Index>(backwards ? n_tiles - 1 - tile.n_tile : tile.n_tile);
  const auto block = static_cast<Index>(step / blocks.beside);
  const auto before = static_cast<Index>(first_m * n_tiles + block * blocks.rows * blocks.beside);
  return static_cast<Index>(before + (tile.m_tile - first_m) * blocks.width(block) + step -
                            block * blocks.beside);
}

}  // namespace moesaic::math
