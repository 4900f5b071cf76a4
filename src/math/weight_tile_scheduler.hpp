// SPDX-License-Identifier: Apache-2.0
// L0: the schedule of wgrad: every expert has the same grid of tiles over dw[e] [N, K], also one
// without rows, whose tiles must be written with zeros; the rows of the expert are what is
// contracted, so a tile of an expert with many rows takes longest. Experts come by falling class of
// length, a power of two, and inside a class in order: what is started last is short. `Local` is
// that of tile_scheduler.hpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "math/expert_segment.hpp"
#include "math/host_device.hpp"
#include "math/integer.hpp"
#include "math/tile_order.hpp"

namespace moesaic::math {

/// Build it with weight_tile_grid(). N is the M side of the product, K its N side.
template <std::signed_integral Local = std::int64_t>
struct WeightTileGrid {
  std::int32_t num_experts = 0;
  std::int64_t max_rows = 0;
  Local n = 0;
  Local k = 0;
  Local tile_n = 1;
  Local tile_k = 1;
  Local block_rows = 1;  ///< Rows contracted per pipeline step.
  Local n_tiles = 0;
  Local k_tiles = 0;
  Local group_n = 1;  ///< Tiles along N per raster group.

  [[nodiscard]] MOESAIC_HD constexpr Local tiles_per_expert() const {
    return static_cast<Local>(n_tiles * k_tiles);
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t total_tiles() const {
    return static_cast<std::int64_t>(num_experts) * tiles_per_expert();
  }
};

template <std::signed_integral Local = std::int64_t>
MOESAIC_HD constexpr WeightTileGrid<Local> weight_tile_grid(
    std::int32_t num_experts, std::int64_t max_rows, std::type_identity_t<Local> n,
    std::type_identity_t<Local> k, std::type_identity_t<Local> tile_n,
    std::type_identity_t<Local> tile_k, std::type_identity_t<Local> block_rows,
    std::type_identity_t<Local> group_n) {
  return {num_experts,
          max_rows,
          n,
          k,
          tile_n,
          tile_k,
          block_rows,
          ceil_div<Local>(n, tile_n),
          ceil_div<Local>(k, tile_k),
          group_n};
}

/// One tile of dw[expert]; expert −1 means that there is no such tile.
template <std::signed_integral Local = std::int64_t>
struct WeightTile {
  std::int32_t expert = -1;
  Local n_tile = 0;
  Local k_tile = 0;
  std::int64_t n_begin = 0;
  Local n_count = 0;  ///< 1 … tile_n.
  std::int64_t k_begin = 0;
  Local k_count = 0;  ///< 1 … tile_k.
  RowRange rows{};    ///< Contracted rows of the buffer; empty: write zeros.
  Local row_blocks = 0;
  bool half = false;  ///< k_count is then 0 … tile_k / 2, and k_begin may be past K.

  [[nodiscard]] MOESAIC_HD constexpr bool valid() const { return expert >= 0; }
  bool operator==(const WeightTile&) const = default;
};

/// Tile `local` of an expert's grid; 0 ≤ local < tiles_per_expert().
template <class Offsets, std::signed_integral Local>
MOESAIC_HD constexpr WeightTile<Local> weight_tile_of_expert(const Offsets& offs,
                                                             const WeightTileGrid<Local>& grid,
                                                             std::int32_t expert,
                                                             std::type_identity_t<Local> local) {
  const TileCoord<Local> at = tile_at<Local>(local, grid.n_tiles, grid.k_tiles, grid.group_n);
  WeightTile<Local> tile;
  tile.expert = expert;
  tile.n_tile = at.m_tile;
  tile.k_tile = at.n_tile;
  tile.n_begin = static_cast<std::int64_t>(at.m_tile) * grid.tile_n;
  tile.n_count = static_cast<Local>(min<std::int64_t>(grid.tile_n, grid.n - tile.n_begin));
  tile.k_begin = static_cast<std::int64_t>(at.n_tile) * grid.tile_k;
  tile.k_count = static_cast<Local>(min<std::int64_t>(grid.tile_k, grid.k - tile.k_begin));
  tile.rows = expert_rows(offs, expert, grid.max_rows);
  tile.row_blocks = ceil_div(static_cast<Local>(tile.rows.rows()), grid.block_rows);
  return tile;
}

/// The left (0) or right (1) half of a tile, along K; tile_k is even.
template <std::signed_integral Local>
MOESAIC_HD constexpr WeightTile<Local> half_of(const WeightTile<Local>& tile,
                                               const WeightTileGrid<Local>& grid, int side) {
  const Local width = grid.tile_k / 2;
  WeightTile<Local> half = tile;
  half.half = true;
  half.k_begin += side * width;
  half.k_count =
      static_cast<Local>(max<std::int64_t>(0, min<std::int64_t>(width, grid.k - half.k_begin)));
  return half;
}

/// Class of the length of a tile's contraction: 0 without rows, else 1 + ⌊log2 row_blocks⌋.
inline constexpr int kWeightTileClasses = 32;
template <std::signed_integral Local>
MOESAIC_HD constexpr int weight_tile_class(Local row_blocks) {
  return 1 + log2_floor(row_blocks);
}

/// A worker's way through the schedule: all experts of the longest class, then of the next.
template <class Offsets, std::signed_integral Local = std::int64_t>
class WeightTileCursor {
 public:
  /// Keeps `offs` by value: a pointer or a view, whose memory must outlive the cursor.
  MOESAIC_HD constexpr WeightTileCursor(Offsets offs, const WeightTileGrid<Local>& grid,
                                        std::int64_t index)
      : offs_(offs), grid_(grid), index_(index) {
    settle();
  }

  [[nodiscard]] MOESAIC_HD constexpr bool valid() const { return index_ < grid_.total_tiles(); }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t index() const { return index_; }

  /// The current tile; only while valid().
  [[nodiscard]] MOESAIC_HD constexpr WeightTile<Local> tile() const {
    return weight_tile_of_expert(offs_, grid_, expert_, static_cast<Local>(index_ - first_index_));
  }

  /// Goes on to tile `index`, which is not before the current one.
  MOESAIC_HD constexpr void seek(std::int64_t index) {
    index_ = index;
    settle();
  }

 private:
  [[nodiscard]] MOESAIC_HD constexpr bool in_class() const {
    const auto rows = static_cast<Local>(expert_rows(offs_, expert_, grid_.max_rows).rows());
    return weight_tile_class(ceil_div(rows, grid_.block_rows)) == class_;
  }

  MOESAIC_HD constexpr void settle() {
    if (!valid()) return;
    while (!in_class() || index_ >= first_index_ + grid_.tiles_per_expert()) {
      if (in_class()) first_index_ += grid_.tiles_per_expert();
      if (++expert_ == grid_.num_experts) {
        expert_ = 0;
        --class_;
      }
    }
  }

  Offsets offs_;
  WeightTileGrid<Local> grid_;
  std::int64_t index_;
  int class_ = kWeightTileClasses - 1;
  std::int32_t expert_ = 0;
  std::int64_t first_index_ = 0;  // global index of the expert's first tile
};

/// Whether WeightTileGrid<Local> may be used: all tiles, N and K fit Local.
template <std::signed_integral Local>
MOESAIC_HD constexpr bool weight_tiles_fit(std::int64_t num_experts, std::int64_t n, std::int64_t k,
                                           std::int64_t tile_n, std::int64_t tile_k) {
  constexpr std::int64_t kLimit = kMaxOf<Local>;
  const std::int64_t per_expert = saturating_mul(ceil_div(n, tile_n), ceil_div(k, tile_k));
  return n <= kLimit && k <= kLimit && saturating_mul(num_experts, per_expert) <= kLimit;
}

}  // namespace moesaic::math
