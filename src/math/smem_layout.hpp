// SPDX-License-Identifier: Apache-2.0
// L0: where a pipelined CTA keeps what in shared memory, where an element stands inside a
// 128-byte-swizzled tile, and what a wgmma descriptor says about that tile. Values only: copies and
// wgmma are the backend's.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"
#include "math/swizzle.hpp"

namespace moesaic::math {

/// Dynamic shared memory that one CTA of compute capability 9.0 can have: 227 KiB.
inline constexpr std::int64_t kSm90SmemBytes = 232'448;

/// Every tile starts on a 128-byte swizzle atom. The kernel aligns the base of its shared memory
/// likewise.
inline constexpr std::int64_t kSmemTileAlignBytes = swizzle_atom_bytes(Swizzle::bytes_128);
inline constexpr std::int64_t kBarrierBytes = 8;

/// What a kernel's Config says about shared memory. Tiles are those of one CTA.
struct SmemConfig {
  std::int64_t tile_m = 0;
  std::int64_t tile_n = 0;
  std::int64_t block_k = 0;
  std::int64_t stages = 0;
  std::int64_t element_bytes = 2;  ///< Of both operands.
  std::int64_t staging_bytes = 0;  ///< Of the epilogue; 0 for none.
  std::int64_t num_barriers = 0;
};

/// Byte offsets from the aligned base: all A stages, all B stages, staging, barriers.
struct SmemMap {
  std::int64_t a_stage_bytes = 0;  ///< Distance of two stages, rounded up to whole atoms.
  std::int64_t b_stage_bytes = 0;
  std::int64_t a_bytes = 0;  ///< What a copy brings per stage: what its barrier expects.
  std::int64_t b_bytes = 0;
  std::int64_t b_begin = 0;
  std::int64_t staging_begin = 0;
  std::int64_t barriers_begin = 0;
  std::int64_t total_bytes = 0;

  [[nodiscard]] MOESAIC_HD constexpr std::int64_t a_offset(std::int64_t stage) const {
    return stage * a_stage_bytes;
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t b_offset(std::int64_t stage) const {
    return b_begin + stage * b_stage_bytes;
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t barrier_offset(std::int64_t barrier) const {
    return barriers_begin + barrier * kBarrierBytes;
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t stage_expect_bytes() const {
    return a_bytes + b_bytes;
  }
  [[nodiscard]] MOESAIC_HD constexpr bool fits(std::int64_t limit_bytes = kSm90SmemBytes) const {
    return total_bytes <= limit_bytes;
  }
};

MOESAIC_HD constexpr SmemMap smem_map(const SmemConfig& config) {
  SmemMap map;
  map.a_bytes = config.tile_m * config.block_k * config.element_bytes;
  map.b_bytes = config.tile_n * config.block_k * config.element_bytes;
  map.a_stage_bytes = round_up(map.a_bytes, kSmemTileAlignBytes);
  map.b_stage_bytes = round_up(map.b_bytes, kSmemTileAlignBytes);
  map.b_begin = config.stages * map.a_stage_bytes;
  map.staging_begin = map.b_begin + config.stages * map.b_stage_bytes;
  map.barriers_begin = round_up(map.staging_begin + config.staging_bytes, kBarrierBytes);
  map.total_bytes = map.barriers_begin + config.num_barriers * kBarrierBytes;
  return map;
}

/// A BF16 tile is kept as panels: 64 elements (128 bytes) wide, `lines` lines high, one after the
/// other, each with the 128-byte swizzle. It is what one copy box of 64 × lines (× panels) writes.
inline constexpr std::int32_t kPanelElems = 64;
inline constexpr std::int32_t kPanelLineBytes = 128;

MOESAIC_HD constexpr std::int32_t panel_bytes(std::int32_t lines) {
  return lines * kPanelLineBytes;
}

/// Byte offset in a panelled BF16 tile of element `across` of line `line`.
MOESAIC_HD constexpr std::int32_t panel_offset(std::int32_t line, std::int32_t across,
                                               std::int32_t lines) {
  const std::int32_t in_panel = line * kPanelLineBytes + (across % kPanelElems) * 2;
  const std::uint32_t swizzled =
      swizzle_offset(Swizzle::bytes_128, static_cast<std::uint32_t>(in_panel));
  return (across / kPanelElems) * panel_bytes(lines) + static_cast<std::int32_t>(swizzled);
}

/// Operand with k contiguous in memory: lines are its `rows` M or N rows, k runs across.
MOESAIC_HD constexpr std::int32_t k_major_offset(std::int32_t row, std::int32_t k,
                                                 std::int32_t rows) {
  return panel_offset(row, k, rows);
}

/// Operand with M or N contiguous in memory: lines are the `block_k` values of k, M or N runs
/// across.
MOESAIC_HD constexpr std::int32_t mn_major_offset(std::int32_t mn, std::int32_t k,
                                                  std::int32_t block_k) {
  return panel_offset(k, mn, block_k);
}

/// The k of one BF16 wgmma.
inline constexpr std::int32_t kWgmmaK = 16;

/// How a wgmma finds the parts of a 128-byte-swizzled BF16 operand.
struct WgmmaOperand {
  std::int32_t leading_bytes = 0;  ///< LBO.
  std::int32_t stride_bytes = 0;   ///< SBO: distance of two groups of eight lines.
};

/// k-major: eight rows are one atom; the operand of one instruction never leaves its panel along k,
/// so the leading offset is not read (16 bytes, encoded as 1, by custom).
MOESAIC_HD constexpr WgmmaOperand k_major_operand() { return {16, 8 * kPanelLineBytes}; }

/// MN-major: the leading offset leads to the next 64 elements along M or N, the stride to the next
/// eight k.
MOESAIC_HD constexpr WgmmaOperand mn_major_operand(std::int32_t block_k) {
  return {panel_bytes(block_k), 8 * kPanelLineBytes};
}

/// Start of the operand for k-step `step` of 16, from the start of a k-major tile of `rows` rows:
/// 32 bytes a step inside a panel of 64. Added to the address before the swizzle, which acts on
/// address bits.
MOESAIC_HD constexpr std::int32_t k_major_step_bytes(std::int32_t step, std::int32_t rows) {
  constexpr std::int32_t kStepsPerPanel = kPanelElems / kWgmmaK;
  return (step / kStepsPerPanel) * panel_bytes(rows) + (step % kStepsPerPanel) * kWgmmaK * 2;
}

/// The same for an MN-major tile: 16 lines a step.
MOESAIC_HD constexpr std::int32_t mn_major_step_bytes(std::int32_t step) {
  return step * kWgmmaK * kPanelLineBytes;
}

/// An element of an operand: M or N index, k.
struct OperandElement {
  std::int32_t mn = 0, k = 0;
};

/// Of an MN-major left operand of 64 x 16: the first of the eight elements, contiguous along M,
/// that lane `lane` of warp `warp` of the warpgroup points ldmatrix.x4.trans at, so that its four
/// registers are the fragment that wgmma takes. Source: PTX ISA, ldmatrix, and the register
/// fragment of A of wgmma.m64nNk16.
MOESAIC_HD constexpr OperandElement left_fragment_source(std::int32_t warp, std::int32_t lane) {
  return {warp * 16 + lane / 8 % 2 * 8, lane % 8 + lane / 16 * 8};
}

/// The 64-bit matrix descriptor without base offset: bits 0–13 start, 16–29 leading, 32–45 stride,
/// each over 16, and bits 62–63 = 1 for the 128-byte swizzle. `start_bytes` is the shared-memory
/// address, a multiple of 16 below 256 KiB. Source: PTX ISA, matrix descriptor of wgmma.
MOESAIC_HD constexpr std::uint64_t wgmma_descriptor(std::uint32_t start_bytes,
                                                    const WgmmaOperand& operand) {
  const auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes & 0x3FFFFu) >> 4);
  };
  return field(start_bytes) | (field(static_cast<std::uint32_t>(operand.leading_bytes)) << 16) |
         (field(static_cast<std::uint32_t>(operand.stride_bytes)) << 32) | (std::uint64_t{1} << 62);
}

}  // namespace moesaic::math
