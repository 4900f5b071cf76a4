// SPDX-License-Identifier: Apache-2.0
// What one lane issues for one stage of a tile: one bulk tensor copy per operand (two for few rows
// and for lines of up and gate), or one per panel where a box of panels would reach past the
// operand.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/ptx/tensor_copy.cuh"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda {

/// MN-major weights: `kWidth` columns of 64 lines of the contraction. Policy: for L2, or a
/// ptx::Multicast.
template <int kWidth, class Policy>
__device__ __forceinline__ void load_weight_columns(const CUtensorMap* map, PanelCopy copy,
                                                    std::uint32_t to, std::uint32_t full, int k,
                                                    int column, int expert, Policy policy) {
  if (copy == PanelCopy::whole) {
    ptx::load_box(to, map, full, {0, k, column / 64, expert}, policy);
  } else {
#pragma unroll
    for (int panel = 0; panel < kWidth / 64; ++panel) {
      ptx::load_box(to + panel * math::panel_bytes(kBlockK), map, full,
                    {column + panel * 64, k, expert}, policy);
    }
  }
}

/// swiglu: `kLines` lines of either part of the weights of 2h lines, one after the other.
template <int kLines>
__device__ __forceinline__ void load_paired_lines(const CUtensorMap* map, std::uint32_t to,
                                                  std::uint32_t full, int k, int line, int expert,
                                                  int pairs, std::uint64_t policy) {
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    if (pair < pairs) {
      ptx::load_box(to + pair * math::panel_bytes(2 * kLines), map, full,
                    {k, line + pair * kLines, 0, expert}, policy);
    }
  }
}

/// Forward, dgrad: rows of a, columns of b (half of them for half a tile), one step of the
/// contraction. Rows past the segment are someone else's or past the buffer; they only make rows
/// that are not stored. Rows that are gathered are not copied here: see row_gather.cuh.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_row_stage(const TensorMaps& maps, const KernelParams& params,
                                               const Ring<kConfig>& ring, int stage,
                                               const math::RowTile<std::int32_t>& tile, int k_block,
                                               std::uint64_t policy) {
  constexpr math::SmemMap kMap = kConfig.smem();
  const std::uint32_t full = ring.full(stage);
  const int k = k_block * kBlockK;
  const int column = static_cast<int>(tile.column_begin);
  ptx::barrier_arrive_expect(
      full, static_cast<std::uint32_t>((kConfig.boxes_of_a() ? kMap.a_bytes : 0) +
                                       (tile.half ? kMap.b_bytes / 2 : kMap.b_bytes)));
  if constexpr (kConfig.boxes_of_a()) {
    ptx::load_box<2>(ring.a(stage), &maps.a, full, {k, static_cast<int>(tile.row_begin)});
  }
  const CUtensorMap* columns_map = tile.half ? &maps.b_few : &maps.b;
  if constexpr (kConfig.epilogue == Epilogue::swiglu) {
    load_paired_lines<64>(&maps.b, ring.b(stage), full, k, column / 2, tile.expert,
                          tile.half ? 1 : 2, policy);
  } else if constexpr (!kConfig.b_mn_major) {
    ptx::load_box(ring.b(stage), columns_map, full, {k, column, tile.expert}, policy);
  } else if (tile.half) {
    load_weight_columns<kConfig.tile_n / 2>(columns_map, params.b_panels, ring.b(stage), full, k,
                                            column, tile.expert, policy);
  } else {
    load_weight_columns<kConfig.tile_n>(columns_map, params.b_panels, ring.b(stage), full, k,
                                        column, tile.expert, policy);
  }
}

/// The same for a tile of few rows: two panels along the contraction, of which the second may be
/// past its end and is then zero. What is not copied of a panel's 64 rows makes rows that are not
/// stored.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_few_rows_stage(const TensorMaps& maps,
                                                    const KernelParams& params,
                                                    const Ring<kConfig>& ring, int stage,
                                                    const math::RowTile<std::int32_t>& tile,
                                                    int k_block, std::uint64_t policy) {
  const bool fewest = tile.rows <= kFewestRows;
  const CUtensorMap* rows_map = fewest ? &maps.a_fewest : &maps.a_few;
  const std::uint32_t row_bytes = (fewest ? kFewestRows : kFewRows) * 128U;
  const std::uint32_t full = ring.full(stage);
  const int column = static_cast<int>(tile.column_begin);
  ptx::barrier_arrive_expect(full, 2 * ((kConfig.boxes_of_a() ? row_bytes : 0) + kFewBBytes));
#pragma unroll
  for (int panel = 0; panel < 2; ++panel) {
    const int k = k_block * kFewBlockK + panel * kBlockK;
    const std::uint32_t b = ring.few_b(stage, panel);
    if constexpr (kConfig.epilogue == Epilogue::swiglu) {
      load_paired_lines<32>(&maps.b_few, b, full, k, column / 2, tile.expert, 2, policy);
    } else if constexpr (!kConfig.b_mn_major) {
      ptx::load_box(b, &maps.b_few, full, {k, column, tile.expert}, policy);
    } else {
      load_weight_columns<kFewColumns>(&maps.b_few, params.b_panels, b, full, k, column,
                                       tile.expert, policy);
    }
    if constexpr (kConfig.boxes_of_a()) {
      ptx::load_box<2>(ring.few_a(stage, panel), rows_map, full,
                       {k, static_cast<int>(tile.row_begin)});
    }
  }
}

/// wgrad: 64 rows of the segment; rows past its end arrive as zeros in both operands. How: for
/// itself, or which CTAs of a cluster they are for.
template <int kWidth, class... How>
__device__ __forceinline__ void load_ragged(const CUtensorMap* map, PanelCopy copy,
                                            std::uint32_t to, std::uint32_t full,
                                            const RaggedCoordinates& at, int column, How... how) {
  if (copy == PanelCopy::whole) {
    ptx::load_box<5>(to, map, full, {0, at.row, column / 64, at.wrap, at.end}, how...);
  } else {
#pragma unroll
    for (int panel = 0; panel < kWidth / 64; ++panel) {
      ptx::load_box<4>(to + panel * math::panel_bytes(kBlockK), map, full,
                       {column + panel * 64, at.row, at.wrap, at.end}, how...);
    }
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void load_weight_stage(const TensorMaps& maps,
                                                  const KernelParams& params,
                                                  const Ring<kConfig>& ring, int stage,
                                                  const math::WeightTile<std::int32_t>& tile,
                                                  int row_block) {
  constexpr math::SmemMap kMap = kConfig.smem();
  const std::uint32_t full = ring.full(stage);
  const RaggedCoordinates at = ragged(tile.rows.begin, tile.rows.rows(), row_block * kBlockK);
  const int column = static_cast<int>(tile.k_begin);
  const std::int64_t b_bytes = tile.half ? kMap.b_bytes / 2 : kMap.b_bytes;
  ptx::barrier_arrive_expect(
      full, static_cast<std::uint32_t>(kMap.a_bytes + (kConfig.boxes_of_b() ? b_bytes : 0)));
  load_ragged<kConfig.tile_m>(&maps.a, params.a_panels, ring.a(stage), full, at,
                              static_cast<int>(tile.n_begin));
  if constexpr (kConfig.boxes_of_b()) {
    if (tile.half) {
      load_ragged<kConfig.tile_n / 2>(&maps.b_few, params.b_panels, ring.b(stage), full, at,
                                      column);
    } else {
      load_ragged<kConfig.tile_n>(&maps.b, params.b_panels, ring.b(stage), full, at, column);
    }
  }
}

}  // namespace moesaic::backends::cuda
