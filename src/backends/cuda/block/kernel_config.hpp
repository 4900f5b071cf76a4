// SPDX-License-Identifier: Apache-2.0
// What is fixed when a kernel is compiled, and what a launch hands it. Plain C++, so that the host
// and its tests read the same table as the kernels.
#pragma once

#include <cstdint>

#include "math/smem_layout.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda {

inline constexpr int kThreads = 384;  ///< One producer warpgroup, two consumer warpgroups.
inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kConsumerWarpgroups = 2;
inline constexpr int kBlockK = 64;     ///< Contraction per pipeline stage: one 128-byte panel.
inline constexpr int kPanelRows = 64;  ///< Rows of one staged output panel.
inline constexpr int kPanelBytes = kPanelRows * 128;
inline constexpr int kStagingPanels = 2;     ///< Per consumer warpgroup.
inline constexpr int kMaxExperts = 8192;     ///< Bounds the shared table of tile_walk.cuh.
inline constexpr int kExpertsPerGroup = 32;  ///< One expert per lane.
inline constexpr int kMaxGroups = kMaxExperts / kExpertsPerGroup;

/// What a CTA of forward or dgrad works out once from the offsets, in shared memory.
struct GroupTable {
  std::int32_t groups[kMaxGroups + 1];  ///< Tile rows before each group of experts.
  std::int32_t last_segment_end;        ///< Last row that any valid segment ends at.
};

/// One compiled kernel: a row of sm90_instances.def.
struct KernelConfig {
  bool wgrad = false;  ///< Contracts the rows of an expert; else rows are the M side.
  int tile_m = 128, tile_n = 256;
  int stages = 4;
  int group_m = 8;  ///< Raster: tile rows that share columns of b, see math/tile_order.hpp.
  int cluster =
      1;  ///< CTAs side by side along N that share the rows of a by multicast: 1 or 2; 1 in wgrad.
  bool split_n = false;     ///< Both warpgroups take all rows and half the columns: for few rows.
  bool b_mn_major = false;  ///< b is contiguous along N (wgrad: always, for both operands).
  bool f32_out = false;

  [[nodiscard]] MOESAIC_HD constexpr int rows_per_warpgroup() const {
    return split_n ? tile_m : tile_m / kConsumerWarpgroups;
  }
  [[nodiscard]] MOESAIC_HD constexpr int columns_per_warpgroup() const {
    return split_n ? tile_n / kConsumerWarpgroups : tile_n;
  }
  [[nodiscard]] MOESAIC_HD constexpr int m64_blocks() const { return rows_per_warpgroup() / 64; }
  [[nodiscard]] MOESAIC_HD constexpr int accumulators() const {
    return m64_blocks() * columns_per_warpgroup() / 2;
  }
  [[nodiscard]] MOESAIC_HD constexpr int panel_columns() const { return f32_out ? 32 : 64; }
  [[nodiscard]] MOESAIC_HD constexpr int output_panels() const {
    return columns_per_warpgroup() / panel_columns();
  }
  [[nodiscard]] MOESAIC_HD constexpr math::SmemMap smem() const {
    return math::smem_map(
        {.tile_m = tile_m,
         .tile_n = tile_n,
         .block_k = kBlockK,
         .stages = stages,
         .element_bytes = 2,
         .staging_bytes = std::int64_t{kConsumerWarpgroups} * kStagingPanels * kPanelBytes,
         .num_barriers = std::int64_t{2} * stages});
  }
  /// The walk's table stands behind everything else.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t smem_bytes() const {
    return smem().total_bytes + (wgrad ? 0 : static_cast<std::int64_t>(sizeof(GroupTable)));
  }
  bool operator==(const KernelConfig&) const = default;
};

/// How a copy box covers an operand that is contiguous along M or N: as one box of 64-wide panels
/// where the width allows it, else panel by panel (a box of panels would reach past the last
/// column).
enum class PanelCopy : std::int32_t { whole, single };

/// Run-time half of a launch. Tensor maps are passed beside it.
struct KernelParams {
  const std::int32_t* offs = nullptr;
  unsigned long long* fault_word = nullptr;
  math::RowTileGrid<std::int32_t> rows{};        ///< forward, dgrad
  math::WeightTileGrid<std::int32_t> weights{};  ///< wgrad
  std::int32_t k_blocks = 0;                     ///< forward, dgrad: ceil(contraction / 64)
  PanelCopy a_panels = PanelCopy::whole;         ///< wgrad
  PanelCopy b_panels = PanelCopy::whole;
  bool accumulate = false;  ///< wgrad: d += result
  bool zero_tail = false;   ///< forward, dgrad
  void* d = nullptr;
  std::int64_t d_row_stride = 0;     ///< Elements.
  std::int64_t d_expert_stride = 0;  ///< Elements; wgrad.
  std::int64_t max_rows = 0;
  std::int32_t num_experts = 0;
  std::int64_t done_rows = 0;  ///< Per expert, by a padded batch before; see Sm90Gemm::enqueue.
};

/// A ragged tensor map has two extra dimensions, so that one map clips at the end of any segment:
/// address = base + s (B - len + r) + B (2^34 - s) + s (begin + len) = base + s (begin + r) modulo
/// 2^64 bytes, with row bound B, so that only r >= len is out of bounds. s is the row stride in
/// elements.
inline constexpr std::int32_t kRaggedRows = 1 << 30;  // B
inline constexpr std::int64_t kRaggedWrapElems = std::int64_t{1} << 34;

struct RaggedCoordinates {
  std::int32_t row, wrap, end;
};
/// Row `row` of segment [begin, begin + rows).
MOESAIC_HD constexpr RaggedCoordinates ragged(std::int64_t begin, std::int64_t rows,
                                              std::int64_t row) {
  return {static_cast<std::int32_t>(kRaggedRows - rows + row), kRaggedRows,
          static_cast<std::int32_t>(begin + rows)};
}

}  // namespace moesaic::backends::cuda
