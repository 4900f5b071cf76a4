// SPDX-License-Identifier: Apache-2.0
// L0: the persistent static schedule: global tile index → (expert, tile). Experts in order, tiles
// of one expert contiguous, inside an expert the order of tile_order.hpp; worker w of W takes w, w
// + W, w + 2W, … A worker is whatever computes one tile: a CTA, or a cluster. A pair of CTAs along
// N is one worker whose tile_n is the pair's width, and CTA r starts at column_begin + r · tile_n /
// 2; nothing else changes.
//
// Global indices are int64. `Local` holds what stays inside one expert (tiles, rows, N): int32 in
// kernels, where an int64 division is a function call; local_tiles_fit() says whether it may be
// used.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "math/expert_segment.hpp"
#include "math/host_device.hpp"
#include "math/integer.hpp"
#include "math/tile_order.hpp"

namespace moesaic::math {

// ---- Forward and dgrad: the rows of an expert are cut into tiles
// -----------------------------------------

/// Build it with row_tile_grid().
template <std::signed_integral Local = std::int64_t>
struct RowTileGrid {
  std::int32_t num_experts = 0;
  std::int64_t max_rows = 0;  ///< M, rows of the buffer.
  Local n = 0;                ///< Columns of the result.
  Local tile_m = 1;
  Local tile_n = 1;
  Local n_tiles = 0;
  Local group_m = 1;  ///< Tile rows per raster group.

  /// Tile rows of a valid segment; its rows fit int32, as offsets do.
  [[nodiscard]] MOESAIC_HD constexpr Local m_tiles(const RowRange& segment) const {
    return ceil_div(static_cast<Local>(segment.rows()), tile_m);
  }
};

template <std::signed_integral Local = std::int64_t>
MOESAIC_HD constexpr RowTileGrid<Local> row_tile_grid(std::int32_t num_experts,
                                                      std::int64_t max_rows,
                                                      std::type_identity_t<Local> n,
                                                      std::type_identity_t<Local> tile_m,
                                                      std::type_identity_t<Local> tile_n,
                                                      std::type_identity_t<Local> group_m) {
  return {num_experts, max_rows, n, tile_m, tile_n, ceil_div<Local>(n, tile_n), group_m};
}

/// One output tile. expert −1 means that there is no such tile.
template <std::signed_integral Local = std::int64_t>
struct RowTile {
  std::int32_t expert = -1;
  Local m_tile = 0;
  Local n_tile = 0;
  std::int64_t row_begin = 0;     ///< In the buffer.
  Local rows = 0;                 ///< 1 … tile_m.
  std::int64_t segment_end = 0;   ///< End row of the expert, where a ragged copy is clipped.
  std::int64_t column_begin = 0;  ///< In N.
  Local columns = 0;              ///< 1 … tile_n.

  [[nodiscard]] MOESAIC_HD constexpr bool valid() const { return expert >= 0; }
  bool operator==(const RowTile&) const = default;
};

/// Tile `local` of an expert's own raster; 0 ≤ local < m_tiles · n_tiles.
template <std::signed_integral Local>
MOESAIC_HD constexpr RowTile<Local> row_tile_of_expert(const RowTileGrid<Local>& grid,
                                                       std::int32_t expert, const RowRange& segment,
                                                       std::type_identity_t<Local> local) {
  const TileCoord<Local> at =
      tile_at<Local>(local, grid.m_tiles(segment), grid.n_tiles, grid.group_m);
  const std::int64_t first_row = static_cast<std::int64_t>(at.m_tile) * grid.tile_m;
  const std::int64_t first_column = static_cast<std::int64_t>(at.n_tile) * grid.tile_n;
  RowTile<Local> tile;
  tile.expert = expert;
  tile.m_tile = at.m_tile;
  tile.n_tile = at.n_tile;
  tile.row_begin = segment.begin + first_row;
  tile.rows = static_cast<Local>(min<std::int64_t>(grid.tile_m, segment.rows() - first_row));
  tile.segment_end = segment.end;
  tile.column_begin = first_column;
  tile.columns = static_cast<Local>(min<std::int64_t>(grid.tile_n, grid.n - first_column));
  return tile;
}

/// First way to the expert: a cursor per worker that reads `offs` forwards, each entry once.
template <class Offsets, std::signed_integral Local = std::int64_t>
class RowTileCursor {
 public:
  /// Keeps `offs` by value: a pointer or a view, whose memory must outlive the cursor.
  MOESAIC_HD constexpr RowTileCursor(Offsets offs, const RowTileGrid<Local>& grid,
                                     std::int64_t worker, std::int64_t num_workers)
      : offs_(offs), grid_(grid), index_(worker), num_workers_(num_workers) {
    load();
    settle();
  }

  [[nodiscard]] MOESAIC_HD constexpr bool valid() const { return expert_ < grid_.num_experts; }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t index() const { return index_; }

  /// The current tile; only while valid().
  [[nodiscard]] MOESAIC_HD constexpr RowTile<Local> tile() const {
    return row_tile_of_expert(grid_, expert_, segment_, static_cast<Local>(index_ - first_index_));
  }

  MOESAIC_HD constexpr void advance() {
    index_ += num_workers_;
    settle();
  }

 private:
  MOESAIC_HD constexpr void load() {
    if (expert_ >= grid_.num_experts) return;
    const std::int64_t end = offs_[expert_];
    segment_ = segment_between(previous_end_, end, grid_.max_rows);
    tiles_ = static_cast<std::int64_t>(grid_.m_tiles(segment_)) * grid_.n_tiles;
    previous_end_ = end;
  }

  MOESAIC_HD constexpr void settle() {
    while (valid() && index_ >= first_index_ + tiles_) {
      first_index_ += tiles_;
      ++expert_;
      load();
    }
  }

  Offsets offs_;
  RowTileGrid<Local> grid_;
  std::int64_t index_;
  std::int64_t num_workers_;
  std::int32_t expert_ = 0;
  std::int64_t previous_end_ = 0;  // raw, possibly wrong
  RowRange segment_{};
  std::int64_t first_index_ = 0;  // global index of the expert's first tile
  std::int64_t tiles_ = 0;
};

/// Second way: a table of tile rows. Fills prefix[e] = tile rows of experts 0 … e and returns the
/// last, all tile rows. Entries may be int32 where row_tile_prefix_fits_int32() says so.
template <class Offsets, std::signed_integral Local, class Prefix>
MOESAIC_HD constexpr std::int64_t build_row_tile_prefix(const Offsets& offs,
                                                        const RowTileGrid<Local>& grid,
                                                        Prefix&& prefix) {
  using Entry = std::remove_reference_t<decltype(prefix[0])>;
  std::int64_t row_tiles = 0;
  for (std::int32_t expert = 0; expert < grid.num_experts; ++expert) {
    row_tiles += grid.m_tiles(expert_rows(offs, expert, grid.max_rows));
    prefix[expert] = static_cast<Entry>(row_tiles);
  }
  return row_tiles;
}

/// All tiles, without a table.
template <class Offsets, std::signed_integral Local>
MOESAIC_HD constexpr std::int64_t count_row_tiles(const Offsets& offs,
                                                  const RowTileGrid<Local>& grid) {
  std::int64_t row_tiles = 0;
  for (std::int32_t expert = 0; expert < grid.num_experts; ++expert) {
    row_tiles += grid.m_tiles(expert_rows(offs, expert, grid.max_rows));
  }
  return row_tiles * grid.n_tiles;
}

/// The expert that owns tile `index` ≥ 0: the first with index < prefix[e] · n_tiles; num_experts
/// if none. Binary search; multiplies rather than divides.
template <class Prefix>
MOESAIC_HD constexpr std::int32_t find_expert(const Prefix& prefix, std::int32_t num_experts,
                                              std::int64_t n_tiles, std::int64_t index) {
  std::int32_t first = 0;
  std::int32_t count = num_experts;
  while (count > 0) {
    const std::int32_t half = count / 2;
    if (index < prefix[first + half] * n_tiles) {
      count = half;
    } else {
      first += half + 1;
      count -= half + 1;
    }
  }
  return first;
}

/// The same for a worker whose indices only grow: looks forward from the expert of its last tile.
template <class Prefix>
MOESAIC_HD constexpr std::int32_t find_expert_from(std::int32_t expert, const Prefix& prefix,
                                                   std::int32_t num_experts, std::int64_t n_tiles,
                                                   std::int64_t index) {
  while (expert < num_experts && index >= prefix[expert] * n_tiles) ++expert;
  return expert;
}

/// Tile `index` once its expert is known; no tile for expert = num_experts.
template <class Prefix, class Offsets, std::signed_integral Local>
MOESAIC_HD constexpr RowTile<Local> row_tile_in_expert(const Prefix& prefix, const Offsets& offs,
                                                       const RowTileGrid<Local>& grid,
                                                       std::int32_t expert, std::int64_t index) {
  if (expert >= grid.num_experts) return {};
  const std::int64_t before = expert == 0 ? 0 : prefix[expert - 1];
  return row_tile_of_expert(grid, expert, expert_rows(offs, expert, grid.max_rows),
                            static_cast<Local>(index - before * grid.n_tiles));
}

/// Tile `index` ≥ 0 by search; expert −1 past the last tile.
template <class Prefix, class Offsets, std::signed_integral Local>
MOESAIC_HD constexpr RowTile<Local> find_row_tile(const Prefix& prefix, const Offsets& offs,
                                                  const RowTileGrid<Local>& grid,
                                                  std::int64_t index) {
  const std::int32_t expert = find_expert(prefix, grid.num_experts, grid.n_tiles, index);
  return row_tile_in_expert(prefix, offs, grid, expert, index);
}

// ---- Bounds that need no offsets
// -------------------------------------------------------------------------

/// The most tile rows that correct offsets can ask for: ⌊(M + A · (tile_m − 1)) / tile_m⌋, where at
/// most A = min(E, M) experts have rows. It is reached. Saturates.
MOESAIC_HD constexpr std::int64_t max_row_tiles(std::int64_t max_rows, std::int64_t num_experts,
                                                std::int64_t tile_m) {
  const std::int64_t active = min(num_experts, max_rows);
  return saturating_add(max_rows, saturating_mul(active, tile_m - 1)) / tile_m;
}

/// The same for any offsets. Segments of wrong offsets may overlap: each decrease allows another
/// pass over the buffer, but takes one expert, which is empty; so at most ⌈E / 2⌉ passes.
MOESAIC_HD constexpr std::int64_t max_row_tiles_any_offsets(std::int64_t max_rows,
                                                            std::int64_t num_experts,
                                                            std::int64_t tile_m) {
  const std::int64_t passes = ceil_div<std::int64_t>(num_experts, 2);
  return saturating_add(saturating_mul(passes, max_rows), saturating_mul(num_experts, tile_m - 1)) /
         tile_m;
}

/// Whether the prefix table may hold int32, whatever the offsets.
MOESAIC_HD constexpr bool row_tile_prefix_fits_int32(std::int64_t max_rows,
                                                     std::int64_t num_experts,
                                                     std::int64_t tile_m) {
  return max_row_tiles_any_offsets(max_rows, num_experts, tile_m) <= kMaxOf<std::int32_t>;
}

/// Whether RowTileGrid<Local> may be used: the tiles of one expert that has all rows, and N, fit
/// Local.
template <std::signed_integral Local>
MOESAIC_HD constexpr bool local_tiles_fit(std::int64_t max_rows, std::int64_t n,
                                          std::int64_t tile_m, std::int64_t tile_n) {
  constexpr std::int64_t kLimit = kMaxOf<Local>;
  return n <= kLimit && saturating_mul(ceil_div(max_rows, tile_m), ceil_div(n, tile_n)) <= kLimit;
}

}  // namespace moesaic::math
