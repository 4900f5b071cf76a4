// SPDX-License-Identifier: Apache-2.0
// L0: the shared-memory swizzles of bulk-tensor copies and wgmma, on byte offsets. They act on
// address bits: an offset must be counted from a base that is aligned to the atom (1024, 512, 256
// bytes).
#pragma once

#include <cstdint>

#include "math/host_device.hpp"

namespace moesaic::math {

/// Named by the width of a row in bytes; the value is the number of exchanged bits.
enum class Swizzle : std::uint32_t { none = 0, bytes_32 = 1, bytes_64 = 2, bytes_128 = 3 };

/// Bytes of one row of the atom: 16, 32, 64, 128.
MOESAIC_HD constexpr std::uint32_t swizzle_row_bytes(Swizzle swizzle) {
  return 16u << static_cast<std::uint32_t>(swizzle);
}

/// Bytes after which the pattern repeats, and to which its base must be aligned: eight rows.
MOESAIC_HD constexpr std::uint32_t swizzle_atom_bytes(Swizzle swizzle) {
  return 8u * swizzle_row_bytes(swizzle);
}

/// Logical → physical byte offset: bits 4… are XORed with bits 7… (three bits for 128 B, two for 64
/// B, one for 32 B). 16-byte chunks stay whole. The upper bits do not change, so it is its own
/// inverse. Source: PTX ISA, swizzling modes of tensor copies; tests/golden/swizzle.csv.
MOESAIC_HD constexpr std::uint32_t swizzle_offset(Swizzle swizzle, std::uint32_t offset_bytes) {
  const std::uint32_t mask = ((1u << static_cast<std::uint32_t>(swizzle)) - 1u) << 4;
  return offset_bytes ^ ((offset_bytes >> 3) & mask);
}

/// Physical → logical byte offset.
MOESAIC_HD constexpr std::uint32_t unswizzle_offset(Swizzle swizzle, std::uint32_t offset_bytes) {
  return swizzle_offset(swizzle, offset_bytes);
}

}  // namespace moesaic::math
