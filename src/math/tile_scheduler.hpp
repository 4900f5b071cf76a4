// SPDX-License-Identifier: Apache-2.0
// L0: the schedule of forward and dgrad: global tile index → (expert, tile). An expert's rows are
// cut into tiles of tile_m rows; where few_m allows it, what is left over, or all rows of an expert
// that has few, is cut into narrower tiles of their own, so that few rows are shared by many
// workers. N is cut into columns of tile_n or few_n. The order: row_tile_sequence.hpp, of one kind
// experts in order, inside an expert that of tile_order.hpp.
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
#include "math/row_tile_sequence.hpp"
#include "math/tile_order.hpp"

namespace moesaic::math {

/// The sizes of tile. few_m = 0: leftover rows get a large tile. A half is the left or right
/// columns of a large tile.
template <std::signed_integral Local = std::int64_t>
struct RowTileShape {
  Local tile_m = 1, tile_n = 1;  ///< tile_n, which is halved, is even.
  Local group_m = 1;             ///< Large tile rows per raster group.
  Local few_m = 0;               ///< Most rows of a tile of few rows; below tile_m.
  Local few_n = 1;
  bool spread = false, elastic = false;  ///< See RowTileColumns.
};

/// Build it with row_tile_grid().
template <std::signed_integral Local = std::int64_t>
struct RowTileGrid {
  std::int32_t num_experts = 0;
  std::int64_t max_rows = 0;  ///< M, rows of the buffer.
  Local n = 0;                ///< Columns of the result.
  RowTileShape<Local> shape{};
  Local n_tiles = 0;      ///< Large tiles side by side.
  Local few_n_tiles = 0;  ///< Tiles of few rows side by side.

  /// Large tile rows of a valid segment; its rows fit int32, as offsets do.
  [[nodiscard]] MOESAIC_HD constexpr Local m_tiles(const RowRange& segment) const {
    const auto rows = static_cast<Local>(segment.rows());
    const Local whole = floor_div(rows, shape.tile_m);
    const auto rest = static_cast<Local>(rows - whole * shape.tile_m);
    return static_cast<Local>(whole + (rest > shape.few_m ? 1 : 0));
  }
  /// 1 where rows are left over for tiles of few rows, else 0.
  [[nodiscard]] MOESAIC_HD constexpr Local few_tiles(const RowRange& segment) const {
    const auto rows = static_cast<Local>(segment.rows());
    const auto rest = static_cast<Local>(rows - floor_div(rows, shape.tile_m) * shape.tile_m);
    return rest > 0 && rest <= shape.few_m ? 1 : 0;
  }
  /// Tile rows of either kind.
  [[nodiscard]] MOESAIC_HD constexpr Local tile_rows(const RowRange& segment, bool few) const {
    return few ? few_tiles(segment) : m_tiles(segment);
  }
  [[nodiscard]] MOESAIC_HD constexpr Local columns_of(RowTileKind kind) const {
    return kind == RowTileKind::few ? few_n_tiles : n_tiles;
  }
  [[nodiscard]] MOESAIC_HD constexpr RowTileColumns columns() const {
    return {n_tiles, shape.spread, shape.elastic};
  }
  /// Of so many large tile rows, of all experts; where tiles are spread, also of so many of few
  /// rows.
  [[nodiscard]] MOESAIC_HD constexpr RowTileSequence sequence(std::int64_t tile_rows,
                                                              std::int64_t workers,
                                                              std::int64_t few_rows = 0) const {
    return large_sequence(tile_rows, columns(), workers, few_rows * few_n_tiles);
  }
};

template <std::signed_integral Local = std::int64_t>
MOESAIC_HD constexpr RowTileGrid<Local> row_tile_grid(
    std::int32_t num_experts, std::int64_t max_rows, std::type_identity_t<Local> n,
    const std::type_identity_t<RowTileShape<Local>>& shape) {
  return {num_experts,
          max_rows,
          n,
          shape,
          ceil_div<Local>(n, shape.tile_n),
          ceil_div<Local>(n, shape.few_n)};
}

/// One output tile. expert −1 means that there is no such tile.
template <std::signed_integral Local = std::int64_t>
struct RowTile {
  std::int32_t expert = -1;
  RowTileKind kind = RowTileKind::large;
  bool half = false;
  Local m_tile = 0;               ///< Rows of the segment before the tile, over tile_m.
  Local n_tile = 0;               ///< Among those of its kind.
  Local row = 0;                  ///< The first, in the segment.
  std::int64_t row_begin = 0;     ///< In the buffer.
  Local rows = 0;                 ///< 1 … tile_m, or 1 … few_m.
  std::int64_t segment_end = 0;   ///< End row of the expert, where a ragged copy is clipped.
  std::int64_t column_begin = 0;  ///< In N; of the right half of a tile it may be past N.
  Local columns = 0;              ///< 1 … the kind's width; 0: a half of which nothing exists.

  [[nodiscard]] MOESAIC_HD constexpr bool valid() const { return expert >= 0; }
  bool operator==(const RowTile&) const = default;
};

/// Tile `local` of an expert's own tiles of a kind; 0 ≤ local < tile rows · columns_of(kind).
template <std::signed_integral Local>
MOESAIC_HD constexpr RowTile<Local> row_tile_of_expert(const RowTileGrid<Local>& grid,
                                                       std::int32_t expert, const RowRange& segment,
                                                       RowTileKind kind,
                                                       std::type_identity_t<Local> local) {
  const RowTileShape<Local>& shape = grid.shape;
  const Local m_tiles = grid.m_tiles(segment);
  const bool few = kind == RowTileKind::few;
  const TileCoord<Local> at = few ? TileCoord<Local>{m_tiles, local}
                                  : tile_at<Local>(local, m_tiles, grid.n_tiles, shape.group_m);
  const Local width = few ? shape.few_n : shape.tile_n;
  const std::int64_t first_row = static_cast<std::int64_t>(at.m_tile) * shape.tile_m;
  const std::int64_t first_column = static_cast<std::int64_t>(at.n_tile) * width;
  RowTile<Local> tile;
  tile.expert = expert;
  tile.kind = kind;
  tile.m_tile = at.m_tile;
  tile.n_tile = at.n_tile;
  tile.row = static_cast<Local>(first_row);
  tile.row_begin = segment.begin + first_row;
  tile.rows = static_cast<Local>(min<std::int64_t>(shape.tile_m, segment.rows() - first_row));
  tile.segment_end = segment.end;
  tile.column_begin = first_column;
  tile.columns = static_cast<Local>(min<std::int64_t>(width, grid.n - first_column));
  return tile;
}

/// The left (0) or the right (1) half of a large tile.
template <std::signed_integral Local>
MOESAIC_HD constexpr RowTile<Local> half_of(const RowTile<Local>& tile,
                                            const RowTileGrid<Local>& grid, int side) {
  RowTile<Local> half = tile;
  half.half = true;
  const Local width = grid.shape.tile_n / 2;
  half.column_begin += side * width;
  half.columns = static_cast<Local>(
      max<std::int64_t>(0, min<std::int64_t>(width, grid.n - half.column_begin)));
  return half;
}

/// The schedule, tile by tile: reads `offs` forwards, to count and then once for each
/// kind, or from the start wherever spread tiles change it.
template <class Offsets, std::signed_integral Local = std::int64_t>
class RowTileCursor {
 public:
  /// Keeps `offs` by value: a pointer or a view, whose memory must outlive the cursor.
  MOESAIC_HD constexpr RowTileCursor(Offsets offs, const RowTileGrid<Local>& grid,
                                     std::int64_t num_workers, std::int64_t index)
      : offs_(offs), grid_(grid), index_(index) {
    std::int64_t tile_rows = 0, few_rows = 0;
    for (std::int32_t expert = 0; expert < grid.num_experts; ++expert) {
      const RowRange segment = expert_rows(offs, expert, grid.max_rows);
      tile_rows += grid.m_tiles(segment);
      few_rows += grid.few_tiles(segment);
    }
    sequence_ = grid.sequence(tile_rows, num_workers, few_rows);
    load();
    settle();
  }

  [[nodiscard]] MOESAIC_HD constexpr bool valid() const { return expert_ < grid_.num_experts; }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t index() const { return index_; }
  [[nodiscard]] MOESAIC_HD constexpr const RowTileSequence& sequence() const { return sequence_; }

  /// The current tile; only while valid().
  [[nodiscard]] MOESAIC_HD constexpr RowTile<Local> tile() const {
    const RowTilePlace at = place_of(sequence_, index_);
    const std::int64_t first = first_row_ * grid_.columns_of(at.kind);
    const RowTile<Local> tile =
        row_tile_of_expert(grid_, expert_, segment_, at.kind, static_cast<Local>(at.tile - first));
    return at.side < 0 ? tile : half_of(tile, grid_, at.side);
  }

  /// Goes to tile `index`; back to the first expert where that takes it.
  MOESAIC_HD constexpr void seek(std::int64_t index) {
    index_ = index;
    settle();
  }

 private:
  MOESAIC_HD constexpr void load() {
    if (!valid()) return;
    segment_ = expert_rows(offs_, expert_, grid_.max_rows);
    rows_ = grid_.tile_rows(segment_, few_);
  }

  MOESAIC_HD constexpr void settle() {
    const RowTilePlace at = place_of(sequence_, index_);
    const std::int64_t columns = grid_.columns_of(at.kind);
    const bool few = at.kind == RowTileKind::few;
    if (few != few_ || at.tile < first_row_ * columns) {
      few_ = few;
      expert_ = 0;
      first_row_ = 0;
      load();
    }
    while (valid() && at.tile >= (first_row_ + rows_) * columns) {
      first_row_ += rows_;
      ++expert_;
      load();
    }
  }

  Offsets offs_;
  RowTileGrid<Local> grid_;
  std::int64_t index_;
  RowTileSequence sequence_{};
  bool few_ = false;
  std::int32_t expert_ = 0;
  RowRange segment_{};
  std::int64_t first_row_ = 0;  // tile rows of the experts before, of few rows or not
  std::int64_t rows_ = 0;       // and of this one
};

/// All tiles, none halved.
template <class Offsets, std::signed_integral Local>
MOESAIC_HD constexpr std::int64_t count_row_tiles(const Offsets& offs,
                                                  const RowTileGrid<Local>& grid) {
  std::int64_t tiles = 0;
  for (std::int32_t expert = 0; expert < grid.num_experts; ++expert) {
    const RowRange segment = expert_rows(offs, expert, grid.max_rows);
    tiles += static_cast<std::int64_t>(grid.m_tiles(segment)) * grid.n_tiles;
    tiles += static_cast<std::int64_t>(grid.few_tiles(segment)) * grid.few_n_tiles;
  }
  return tiles;
}

}  // namespace moesaic::math
