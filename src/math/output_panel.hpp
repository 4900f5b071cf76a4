// SPDX-License-Identifier: Apache-2.0
// L0: where a lane's words of a wgmma fragment stand in a panel of 16 rows of 128 bytes with the
// 128-byte swizzle. The fragment gives lane l, in rows l/4 and eight below, columns 8j + 2(l%4) and
// the next.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/smem_layout.hpp"
#include "math/swizzle.hpp"

namespace moesaic::math {

/// Byte offset of 16 bytes of a row: `chunk` of eight.
MOESAIC_HD constexpr std::uint32_t panel_chunk(std::int32_t row, std::int32_t chunk) {
  return swizzle_offset(Swizzle::bytes_128,
                        static_cast<std::uint32_t>(row * kPanelLineBytes + chunk * 16));
}

/// The row that lane `lane` names to stmatrix: of four matrices, rows 0-7 and 8-15 of
/// the eight 16-bit columns from 16 · pair on, then of the eight that follow; 0 ≤ pair < 4.
MOESAIC_HD constexpr std::uint32_t matrix_row(std::int32_t lane, std::int32_t pair) {
  return panel_chunk(lane % 16, pair * 2 + lane / 16);
}

/// The two 32-bit words of block `block` of eight columns in row lane/4; eight rows below are
/// 8 · kPanelLineBytes further; 0 ≤ block < 4.
MOESAIC_HD constexpr std::uint32_t word_pair(std::int32_t lane, std::int32_t block) {
  return panel_chunk(lane / 4, block * 2 + lane % 4 / 2) + static_cast<std::uint32_t>(lane % 2 * 8);
}

}  // namespace moesaic::math
