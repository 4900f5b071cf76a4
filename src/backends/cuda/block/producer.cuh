// SPDX-License-Identifier: Apache-2.0
// The producer warp: one bulk tensor copy per operand and stage, or one per panel where a box of
// panels would reach past the operand. All lanes run the loops; one elected lane issues.
#pragma once

#include <cstdint>

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/ptx/sync.cuh"
#include "backends/cuda/ptx/tensor_copy.cuh"

namespace moesaic::backends::cuda {

/// Shared-memory addresses of a CTA's ring.
template <KernelConfig kConfig>
struct Ring {
  std::uint32_t base;

  [[nodiscard]] __device__ std::uint32_t a(int stage) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base +
           static_cast<std::uint32_t>(stage) * static_cast<std::uint32_t>(kMap.a_stage_bytes);
  }
  [[nodiscard]] __device__ std::uint32_t b(int stage) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base + static_cast<std::uint32_t>(kMap.b_begin) +
           static_cast<std::uint32_t>(stage) * static_cast<std::uint32_t>(kMap.b_stage_bytes);
  }
  [[nodiscard]] __device__ std::uint32_t full(int stage) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base + static_cast<std::uint32_t>(kMap.barriers_begin) +
           static_cast<std::uint32_t>(stage) * 8U;
  }
  [[nodiscard]] __device__ std::uint32_t empty(int stage) const {
    return full(kConfig.stages + stage);
  }
  [[nodiscard]] __device__ std::uint32_t staging(int warpgroup) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base + static_cast<std::uint32_t>(kMap.staging_begin) +
           static_cast<std::uint32_t>(warpgroup * kStagingPanels * kPanelBytes);
  }
  /// What a full stage's copies bring, clipped or not.
  [[nodiscard]] static __device__ std::uint32_t stage_bytes() {
    constexpr math::SmemMap kMap = kConfig.smem();
    constexpr std::int64_t kBytes = kMap.stage_expect_bytes();
    return static_cast<std::uint32_t>(kBytes);
  }
};

/// First column of this CTA in its tile, counted from the tile's: a cluster's CTAs lie side by
/// side.
template <KernelConfig kConfig>
__device__ __forceinline__ int cta_column() {
  return kConfig.cluster == 1 ? 0 : static_cast<int>(ptx::cluster_rank()) * kConfig.tile_n;
}

/// All CTAs of a cluster.
template <KernelConfig kConfig>
inline constexpr std::uint16_t kAllCtas = static_cast<std::uint16_t>((1U << kConfig.cluster) - 1U);

/// Forward, dgrad: rows of a, columns of b, one step of the contraction. Rows past the segment are
/// someone else's or past the buffer; they only make rows that are not stored.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_row_stage(const TensorMaps& maps, const KernelParams& params,
                                               const Ring<kConfig>& ring, int stage,
                                               const math::RowTile<std::int32_t>& tile,
                                               int k_block) {
  const std::uint32_t full = ring.full(stage);
  const int k = k_block * kBlockK;
  const int column = static_cast<int>(tile.column_begin) + cta_column<kConfig>();
  ptx::barrier_arrive_expect(full, Ring<kConfig>::stage_bytes());
  if constexpr (kConfig.cluster == 1) {
    ptx::load_box<2>(ring.a(stage), &maps.a, full, {k, static_cast<int>(tile.row_begin)});
  } else {  // each CTA brings its share of the rows for both
    constexpr int kRows = kConfig.tile_m / kConfig.cluster;
    const int first = static_cast<int>(ptx::cluster_rank()) * kRows;
    ptx::load_box_multicast<2>(ring.a(stage) + static_cast<std::uint32_t>(math::panel_bytes(first)),
                               &maps.a, full, kAllCtas<kConfig>,
                               {k, static_cast<int>(tile.row_begin) + first});
  }
  if constexpr (!kConfig.b_mn_major) {
    ptx::load_box<3>(ring.b(stage), &maps.b, full, {k, column, tile.expert});
  } else if (params.b_panels == PanelCopy::whole) {
    ptx::load_box<4>(ring.b(stage), &maps.b, full, {0, k, column / 64, tile.expert});
  } else {
#pragma unroll
    for (int panel = 0; panel < kConfig.tile_n / 64; ++panel) {
      ptx::load_box<3>(ring.b(stage) + panel * math::panel_bytes(kBlockK), &maps.b, full,
                       {column + panel * 64, k, tile.expert});
    }
  }
}

/// wgrad: 64 rows of the segment; rows past its end arrive as zeros in both operands.
template <int kWidth>
__device__ __forceinline__ void load_ragged(const CUtensorMap* map, PanelCopy copy,
                                            std::uint32_t to, std::uint32_t full,
                                            const RaggedCoordinates& at, int column) {
  if (copy == PanelCopy::whole) {
    ptx::load_box<5>(to, map, full, {0, at.row, column / 64, at.wrap, at.end});
  } else {
#pragma unroll
    for (int panel = 0; panel < kWidth / 64; ++panel) {
      ptx::load_box<4>(to + panel * math::panel_bytes(kBlockK), map, full,
                       {column + panel * 64, at.row, at.wrap, at.end});
    }
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void load_weight_stage(const TensorMaps& maps,
                                                  const KernelParams& params,
                                                  const Ring<kConfig>& ring, int stage,
                                                  const math::WeightTile<std::int32_t>& tile,
                                                  int row_block) {
  const std::uint32_t full = ring.full(stage);
  const RaggedCoordinates at = ragged(tile.rows.begin, tile.rows.rows(), row_block * kBlockK);
  ptx::barrier_arrive_expect(full, Ring<kConfig>::stage_bytes());
  load_ragged<kConfig.tile_m>(&maps.a, params.a_panels, ring.a(stage), full, at,
                              static_cast<int>(tile.n_begin));
  load_ragged<kConfig.tile_n>(&maps.b, params.b_panels, ring.b(stage), full, at,
                              static_cast<int>(tile.k_begin));
}

}  // namespace moesaic::backends::cuda
