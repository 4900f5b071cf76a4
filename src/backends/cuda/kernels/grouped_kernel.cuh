// SPDX-License-Identifier: Apache-2.0
// The grouped product on sm_90a: persistent CTAs walk the static schedule that every CTA derives
// from the offsets by itself. Warpgroup 0 loads (and zeroes the tail), warpgroups 1 and 2 multiply
// and store.
#pragma once

#include <cstdint>

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/mainloop.cuh"
#include "backends/cuda/block/producer.cuh"
#include "backends/cuda/block/tile_walk.cuh"

namespace moesaic::backends::cuda {

// 40 + 2 * 232 registers for three warpgroups of 128 threads stay within the 65,536 of an SM.
inline constexpr int kProducerRegisters = 40;
inline constexpr int kConsumerRegisters = 232;

/// A cluster is one worker of the schedule, whose tile is all its CTAs' columns.
template <KernelConfig kConfig>
__device__ __forceinline__ std::int64_t worker() {
  return blockIdx.x / kConfig.cluster;
}
template <KernelConfig kConfig>
__device__ __forceinline__ std::int64_t num_workers() {
  return gridDim.x / kConfig.cluster;
}

/// Calls `body(tile)` for every tile of this CTA.
template <KernelConfig kConfig, class Body>
__device__ __forceinline__ void for_each_tile(const KernelParams& params, const GroupTable& table,
                                              const Body& body) {
  if constexpr (kConfig.wgrad) {
    const std::int64_t total = params.weights.total_tiles();
    for (std::int64_t index = worker<kConfig>(); index < total; index += num_workers<kConfig>()) {
      const math::WeightTile<std::int32_t> tile =
          math::weight_tile(params.offs, params.weights, index);
      const bool unchanged = params.accumulate && tile.row_blocks == 0;
      const bool done = params.done_rows > 0 && tile.rows.rows() <= params.done_rows;
      if (!unchanged && !done) body(tile);
    }
  } else {
    RowTileWalk walk(params, table);
    for (std::int64_t index = worker<kConfig>();; index += num_workers<kConfig>()) {
      const math::RowTile<std::int32_t> tile = walk.find(index);
      if (!tile.valid()) break;
      body(tile);
    }
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void produce(const TensorMaps& maps, const KernelParams& params,
                                        const Ring<kConfig>& ring, const GroupTable& table) {
  math::PipelineState<kConfig.stages> state;
  for_each_tile<kConfig>(params, table, [&](const auto& tile) {
    int k_blocks = 0;
    if constexpr (kConfig.wgrad) {
      k_blocks = tile.row_blocks;
    } else {
      k_blocks = params.k_blocks;
    }
    for (int k_block = 0; k_block < k_blocks; ++k_block) {
      ptx::barrier_wait(ring.empty(state.stage), math::producer_parity(state.phase));
      if (ptx::elect_one()) {
        if constexpr (kConfig.wgrad) {
          load_weight_stage<kConfig>(maps, params, ring, state.stage, tile, k_block);
        } else {
          load_row_stage<kConfig>(maps, params, ring, state.stage, tile, k_block);
        }
      }
      state.advance();
    }
  });
}

/// Zeroes output rows past the last expert, 16 bytes at a time; three warps of every CTA take part.
template <KernelConfig kConfig>
__device__ __forceinline__ void zero_tail(const KernelParams& params, const GroupTable& table) {
  constexpr int kWarps = 3;
  constexpr int kElemBytes = kConfig.f32_out ? 4 : 2;
  const std::int64_t first = math::tail_begin_after(params.offs[params.num_experts - 1],
                                                    table.last_segment_end, params.max_rows);
  const int warp = static_cast<int>(threadIdx.x / 32) - 1;
  const std::int64_t row_bytes = static_cast<std::int64_t>(params.rows.n) * kElemBytes;
  for (std::int64_t row = first + blockIdx.x * kWarps + warp; row < params.max_rows;
       row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    char* line = static_cast<char*>(params.d) + row * params.d_row_stride * kElemBytes;
    for (std::int64_t byte = lane_id() * 16; byte < row_bytes; byte += 32 * 16) {
      *reinterpret_cast<uint4*>(line + byte) = uint4{0, 0, 0, 0};
    }
  }
}

/// Where a warpgroup's part of a tile begins.
template <KernelConfig kConfig>
__device__ __forceinline__ int first_row(int warpgroup) {
  return kConfig.split_n ? 0 : warpgroup * kConfig.rows_per_warpgroup();
}
template <KernelConfig kConfig>
__device__ __forceinline__ int first_column(int warpgroup) {
  return cta_column<kConfig>() +
         (kConfig.split_n ? warpgroup * kConfig.columns_per_warpgroup() : 0);
}

template <KernelConfig kConfig>
__device__ __forceinline__ PanelTarget target(const TensorMaps& maps, const KernelParams& params,
                                              const math::RowTile<std::int32_t>& tile,
                                              int warpgroup) {
  PanelTarget to{};
  to.map = &maps.d;
  to.ragged_rows = true;
  const std::int64_t row_in_segment = static_cast<std::int64_t>(tile.m_tile) * kConfig.tile_m;
  to.segment_begin = tile.row_begin - row_in_segment;
  to.segment_rows = tile.segment_end - to.segment_begin;
  to.row = static_cast<std::int32_t>(row_in_segment) + first_row<kConfig>(warpgroup);
  to.row_limit = static_cast<std::int32_t>(to.segment_rows);
  to.column = static_cast<std::int32_t>(tile.column_begin) + first_column<kConfig>(warpgroup);
  to.column_limit = params.rows.n;
  return to;
}

template <KernelConfig kConfig>
__device__ __forceinline__ PanelTarget target(const TensorMaps& maps, const KernelParams& params,
                                              const math::WeightTile<std::int32_t>& tile,
                                              int warpgroup) {
  PanelTarget to{};
  to.map = &maps.d;
  to.add = kConfig.f32_out && params.accumulate;
  to.row = static_cast<std::int32_t>(tile.n_begin) + first_row<kConfig>(warpgroup);
  to.row_limit = params.weights.n;
  to.column = static_cast<std::int32_t>(tile.k_begin) + first_column<kConfig>(warpgroup);
  to.column_limit = params.weights.k;
  to.expert = tile.expert;
  return to;
}

template <KernelConfig kConfig>
__device__ __forceinline__ void consume(const TensorMaps& maps, const KernelParams& params,
                                        const Ring<kConfig>& ring, const GroupTable& table,
                                        int warpgroup) {
  math::PipelineState<kConfig.stages> state;
  const bool issuer = threadIdx.x % kWarpgroupThreads == 0;
  for_each_tile<kConfig>(params, table, [&](const auto& tile) {
    const PanelTarget to = target<kConfig>(maps, params, tile, warpgroup);
    int k_blocks = 0;
    if constexpr (kConfig.wgrad) {
      k_blocks = tile.row_blocks;
    } else {
      k_blocks = params.k_blocks;
    }
    if (to.row >= to.row_limit) {
      skip_tile<kConfig>(ring, state, k_blocks);
      return;
    }
    Accumulators<kConfig> sums;  // not carried from tile to tile, so that nothing keeps it alive
    multiply_tile<kConfig>(ring, state, warpgroup, k_blocks, sums);
    if constexpr (kConfig.wgrad && !kConfig.f32_out) {
      if (params.accumulate) add_old_bf16<kConfig>(params, to, sums);
    }
    store_tile<kConfig>(ring, warpgroup, issuer, sums, to);
  });
  if (issuer) ptx::store_wait_all();  // shared memory must outlive the copies
}

/// `Instance` carries the row of the table as `Instance::kConfig`: nvcc cannot name a kernel whose
/// template argument is a class value.
template <class Instance>
__global__ void __launch_bounds__(kThreads, 1)
    grouped_kernel(const __grid_constant__ TensorMaps maps,
                   const __grid_constant__ KernelParams params) {
  constexpr KernelConfig kConfig = Instance::kConfig;
  extern __shared__ __align__(1024) unsigned char smem[];
  const Ring<kConfig> ring{ptx::shared_address(smem)};
  constexpr math::SmemMap kMap = kConfig.smem();
  auto& table = *reinterpret_cast<GroupTable*>(smem + kMap.total_bytes);  // wgrad has none
  const int warp = static_cast<int>(__shfl_sync(kAllLanes, threadIdx.x / 32, 0));

  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&maps.a);
    ptx::prefetch_tensor_map(&maps.b);
    ptx::prefetch_tensor_map(&maps.d);
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      ptx::barrier_init(ring.full(stage), 1);
      ptx::barrier_init(ring.empty(stage), kConfig.cluster * kConsumerWarpgroups * 4);
    }
    ptx::fence_barrier_init();
  }
  ptx::wait_for_prior_grids();  // every thread: offsets and operands may be theirs
  ptx::allow_next_grid();
  if (blockIdx.x == 0) record_faults(params);
  if constexpr (kConfig.wgrad) {
    __syncthreads();  // barriers are initialized
  } else {
    build_group_table(params, table);  // synchronizes the CTA
  }

  if constexpr (kConfig.cluster > 1)
    ptx::cluster_barrier();  // the others' barriers are initialized too

  if (warp < 4) {
    ptx::registers_release<kProducerRegisters>();
    if (warp == 0) {
      produce<kConfig>(maps, params, ring, table);
    } else if constexpr (!kConfig.wgrad) {
      if (params.zero_tail) zero_tail<kConfig>(params, table);
    }
  } else {
    ptx::registers_take<kConsumerRegisters>();
    consume<kConfig>(maps, params, ring, table, warp / 4 - 1);
  }
  // Shared memory must outlive the copies and arrivals that the other CTAs still send here.
  if constexpr (kConfig.cluster > 1) ptx::cluster_barrier();
}

}  // namespace moesaic::backends::cuda
