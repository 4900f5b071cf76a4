// SPDX-License-Identifier: Apache-2.0
// A pair: two CTAs of a cluster that are one worker (math/pair_tiles.hpp). What both read of a
// stage comes once from L2: each CTA loads half of it into both, so that a stage is full when the
// copies of both have come, and empty when the consumers of both are done with it.
//
// That a copy finds its barrier in the right phase: a CTA issues it when it has seen the stage
// empty, so that all warps of the other one have seen the phase before complete. Its bytes may come
// before the other CTA says how many to expect; the arrival that is still due keeps the phase open.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/block/stage_loads.cuh"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/ptx/cluster.cuh"
#include "backends/cuda/ptx/tensor_copy.cuh"
#include "math/pair_tiles.hpp"
#include "math/weight_pair.hpp"

namespace moesaic::backends::cuda {

inline constexpr std::uint16_t kBothCtas = 0b11;

/// `kWidth` columns of b, by a box of as many; swiglu: a block, 64 lines of either part. Policy: as
/// in load_weight_columns().
template <KernelConfig kConfig, int kWidth, class Policy>
__device__ __forceinline__ void load_columns(const CUtensorMap* map, const KernelParams& params,
                                             std::uint32_t to, std::uint32_t full, int k,
                                             int column, int expert, Policy policy) {
  if constexpr (kConfig.epilogue == Epilogue::swiglu) {
    ptx::load_box(to, map, full, {k, column / 2, 0, expert}, policy);
  } else if constexpr (!kConfig.b_mn_major) {
    ptx::load_box(to, map, full, {k, column, expert}, policy);
  } else {
    load_weight_columns<kWidth>(map, params.b_panels, to, full, k, column, expert, policy);
  }
}

/// One step of the contraction of a CTA's half of a large tile: its own operand for itself, half of
/// the shared one for both. 64 rows or columns are kBlockBytes of a stage in either storage.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_pair_stage(const TensorMaps& maps, const KernelParams& params,
                                                const Ring<kConfig>& ring, int stage,
                                                const math::PairTile<std::int32_t>& tile,
                                                int k_block, std::uint64_t policy) {
  constexpr math::SmemMap kMap = kConfig.smem();
  constexpr bool kBlocks = kConfig.epilogue == Epilogue::swiglu;
  const CUtensorMap* half_map = kBlocks ? &maps.b : &maps.b_few;  // 128 columns
  const std::uint32_t full = ring.full(stage);
  const int k = k_block * kBlockK;
  const int row = static_cast<int>(tile.row_begin), column = static_cast<int>(tile.column_begin);
  const int first = static_cast<int>(ptx::cluster_rank()) *
                    math::pair_share<std::int32_t>(kConfig.row_shape(), tile);
  const auto shared_at = static_cast<std::uint32_t>(first / 64 * kBlockBytes);
  const auto b_bytes = static_cast<std::uint32_t>(tile.half ? kMap.b_bytes / 2 : kMap.b_bytes);
  if (tile.shares == math::PairShares::rows) {
    ptx::barrier_arrive_expect(full, static_cast<std::uint32_t>(kMap.a_bytes) + b_bytes);
    ptx::load_box(ring.a(stage) + shared_at, &maps.a_few, full, {k, row + first}, kBothCtas);
    load_columns<kConfig, kFewColumns>(half_map, params, ring.b(stage), full, k, column,
                                       tile.expert, policy);
    return;
  }
  const bool has_rows = tile.rows > 0;
  ptx::barrier_arrive_expect(full,
                             (has_rows ? static_cast<std::uint32_t>(kMap.a_bytes) : 0) + b_bytes);
  if (has_rows) ptx::load_box<2>(ring.a(stage), &maps.a, full, {k, row});
  const ptx::Multicast to_both{kBothCtas, policy};
  const std::uint32_t b = ring.b(stage) + shared_at;
  if (!tile.half) {
    load_columns<kConfig, kFewColumns>(half_map, params, b, full, k, column + first, tile.expert,
                                       to_both);
  } else if constexpr (kBlocks) {  // one block, which no box divides: each loads it for itself
    load_columns<kConfig, kFewColumns>(half_map, params, ring.b(stage), full, k, column,
                                       tile.expert, policy);
  } else {
    load_columns<kConfig, kConfig.b_box_columns()>(&maps.b, params, b, full, k, column + first,
                                                   tile.expert, to_both);
  }
}

/// wgrad: the same of a CTA's lines of a tile, if it has any. Halves, and all where the two work
/// apart, each loads for itself.
template <KernelConfig kConfig>
__device__ __forceinline__ void load_weight_stage(const TensorMaps& maps,
                                                  const KernelParams& params,
                                                  const Ring<kConfig>& ring, int stage,
                                                  const math::WeightPairTile<std::int32_t>& tile,
                                                  int row_block) {
  constexpr math::SmemMap kMap = kConfig.smem();
  const std::uint32_t full = ring.full(stage);
  const RaggedCoordinates at = ragged(tile.rows.begin, tile.rows.rows(), row_block * kBlockK);
  const int column = static_cast<int>(tile.k_begin);
  const bool has_lines = tile.n_count > 0;
  ptx::barrier_arrive_expect(
      full, (has_lines ? static_cast<std::uint32_t>(kMap.a_bytes) : 0) +
                static_cast<std::uint32_t>(tile.half ? kMap.b_bytes / 2 : kMap.b_bytes));
  if (has_lines) {
    load_ragged<kConfig.tile_m>(&maps.a, params.a_panels, ring.a(stage), full, at,
                                static_cast<int>(tile.n_begin));
  }
  if (tile.half) {
    load_ragged<kFewColumns>(&maps.b_few, params.b_panels, ring.b(stage), full, at, column);
  } else if (tile.together) {
    const int first =
        static_cast<int>(ptx::cluster_rank()) * math::weight_pair_share(params.weights, tile);
    load_ragged<kFewColumns>(&maps.b_few, params.b_panels,
                             ring.b(stage) + static_cast<std::uint32_t>(first / 64 * kBlockBytes),
                             full, at, column + first, kBothCtas);
  } else {
    load_ragged<kConfig.tile_n>(&maps.b, params.b_panels, ring.b(stage), full, at, column);
  }
}

}  // namespace moesaic::backends::cuda
