// SPDX-License-Identifier: Apache-2.0
// L0: how many tiles forward and dgrad can have, whatever the offsets, and whether 32-bit indices
// hold them.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

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

/// Whether sums of tile rows over the experts fit int32, whatever the offsets.
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
