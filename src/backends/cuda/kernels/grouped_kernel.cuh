// SPDX-License-Identifier: Apache-2.0
// The grouped product on sm_90a: persistent CTAs, each of which finds its tiles in the offsets by
// itself. Warpgroup 0 loads (and zeroes the tail, and records faults), one warp of it or, where
// rows are gathered, all four; warpgroups 1 and 2 multiply and store. Where an activation follows,
// they hand over to warpgroup 3 and the other warps of warpgroup 0.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation_warps.cuh"
#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/few_expert_rows.cuh"
#include "backends/cuda/block/handed_tiles.cuh"
#include "backends/cuda/block/large_tile.cuh"
#include "backends/cuda/block/mainloop.cuh"
#include "backends/cuda/block/pair_producer.cuh"
#include "backends/cuda/block/producer.cuh"
#include "backends/cuda/block/row_gather.cuh"
#include "backends/cuda/block/weight_producer.cuh"

namespace moesaic::backends::cuda {

/// Zeroes output rows past the last expert, 16 bytes at a time; two warps of every CTA take part.
template <KernelConfig kConfig>
__device__ __forceinline__ void zero_tail(const KernelParams& params, int warp) {
  constexpr int kWarps = 2;
  constexpr int kElemBytes = kConfig.f32_out ? 4 : 2;
  std::int32_t last_end = 0;
  for (int group = 0; group < num_groups(params); ++group) {
    const math::RowRange segment = segment_of(params, group);
    last_end = math::max(last_end, static_cast<std::int32_t>(segment.end));
  }
  last_end = __reduce_max_sync(kAllLanes, last_end);
  const std::int64_t first =
      math::tail_begin_after(params.offs[params.num_experts - 1], last_end, params.max_rows);
  const std::int64_t row_bytes = static_cast<std::int64_t>(params.rows.n) * kElemBytes;
  for (std::int64_t row = first + blockIdx.x * kWarps + warp; row < params.max_rows;
       row += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    char* line = static_cast<char*>(params.d) + row * params.d_row_stride * kElemBytes;
    for (std::int64_t byte = lane_id() * 16; byte < row_bytes; byte += 32 * 16) {
      *reinterpret_cast<uint4*>(line + byte) = uint4{0, 0, 0, 0};
    }
  }
}

/// Records the fault of the lowest bad expert. One warp of one CTA.
__device__ inline void record_faults(const KernelParams& params) {
  std::uint64_t word = 0;
  for (std::int32_t expert = lane_id(); expert < params.num_experts; expert += 32) {
    word = math::combine_faults(
        word, math::encode_fault(math::expert_fault(params.offs, expert, params.max_rows)));
  }
  if (word != 0) atomicMax(params.fault_word, static_cast<unsigned long long>(word));
}

/// Where a warp's part of a tile begins; warp 0 to 7.
template <KernelConfig kConfig>
__device__ __forceinline__ PanelTarget target(const TensorMaps& maps, const KernelParams& params,
                                              const TileMessage& tile, int warp) {
  PanelTarget to{};
  to.map = &maps.d;
  to.ragged_rows = !kConfig.wgrad;
  to.add = kConfig.wgrad && kConfig.f32_out && params.accumulate;
  to.segment_begin = tile.segment_begin;
  to.segment_rows = tile.segment_rows;
  to.row_limit = kConfig.wgrad ? params.weights.n : tile.segment_rows;
  to.column_limit = kConfig.wgrad ? params.weights.k : params.rows.n;
  to.expert = tile.expert;
  const bool few = tile.kind == TileMessage::few;
  static_assert(kBlockRows == 4 * kPanelRows);
  to.row = tile.row + (few ? warp % 4 : warp) * kPanelRows;
  to.column = tile.column + (few && warp >= 4 ? kFewColumns / kConsumerWarpgroups : 0);
  if constexpr (kConfig.row_weights) {  // read now, needed when the tile is multiplied
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = to.row + lane_id() / 4 + half * 8;
      to.weights[half] =
          row < to.row_limit ? params.row_weights[std::int64_t{to.segment_begin} + row] : 0.0F;
    }
  }
  return to;
}

/// A consumer warp's part of a tile of few rows.
template <KernelConfig kConfig, class Out>
__device__ __forceinline__ void compute_few_rows(const KernelParams& params,
                                                 const Ring<kConfig>& ring,
                                                 RingState<kConfig>& state, Out& out, int k_blocks,
                                                 int warpgroup, const PanelTarget& to) {
  constexpr int kColumns = kFewColumns / kConsumerWarpgroups;
  float sums[kColumns / 2];
  struct Nothing {};
  multiply_stages<kConfig>(
      ring, state, k_blocks, true, [](int /*stage*/) { return Nothing{}; },
      [&](int stage, Nothing /*loaded*/, bool first) {
        multiply_few(ring, stage, warpgroup, first, sums);
      });
  if constexpr (kConfig.epilogue == Epilogue::swiglu) {
    store_few_swiglu(params.expert, sums, to);
  } else if constexpr (kConfig.epilogue == Epilogue::dswiglu) {
    store_few_dswiglu(params.expert, sums, to);
  } else {
    store_panels<kConfig, 0, kColumns / kConfig.panel_columns()>(out, sums, to);
  }
}

/// Large tiles of 128 rows, then those that are halved.
template <KernelConfig kConfig, class Store, class ReceiveNext>
__device__ __forceinline__ void compute_and_halves(const Ring<kConfig>& ring, const Store& store,
                                                   RingState<kConfig>& state, int warpgroup,
                                                   const TileMessage& tile, const PanelTarget& to,
                                                   const ReceiveNext& receive_next) {
  LargeTiles<kConfig, Store> tiles(ring, store, warpgroup);
  tiles.compute(state, tile, to, receive_next);
  tiles.compute_halves(state, tile, to, receive_next);
}

/// A consumer warp's large tiles, whole and halved.
template <KernelConfig kConfig, class Out, class ReceiveNext>
__device__ __forceinline__ void compute_large(const TensorMaps& maps, const KernelParams& params,
                                              const Ring<kConfig>& ring, RingState<kConfig>& state,
                                              Out& out, int warp, const TileMessage& tile,
                                              const PanelTarget& to,
                                              const ReceiveNext& receive_next) {
  if constexpr (kConfig.hands_over()) {
    HandedTiles<kConfig>(ring, out, warp / 4).compute(state, tile, to, receive_next);
  } else if constexpr (kConfig.wgrad) {
    const WeightStore<kConfig> store(out, params);
    compute_and_halves<kConfig>(ring, store, state, warp / 4, tile, to, receive_next);
  } else {
    const PanelStore<kConfig> store(out);
    compute_and_halves<kConfig>(ring, store, state, warp / 4, tile, to, receive_next);
  }
}

/// passes_over(): a tile that compute_large() takes where this warpgroup has rows of it.
template <KernelConfig kConfig>
__device__ __forceinline__ bool is_large(const TileMessage& tile) {
  if constexpr (kConfig.wgrad) return tile.kind != TileMessage::end;
  return tile.kind == TileMessage::large || tile.kind == TileMessage::half;
}

/// Through what a consumer warp's results leave.
template <KernelConfig kConfig>
__device__ __forceinline__ auto way_out(const Ring<kConfig>& ring, int warp) {
  if constexpr (kConfig.hands_over()) {
    return HandOver<kConfig>(ring, warp);
  } else {
    return Staging(ring.staging(warp));
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void consume(const TensorMaps& maps, const KernelParams& params,
                                        Ring<kConfig>& ring, int warp) {
  RingState<kConfig> state;
  auto out = way_out<kConfig>(ring, warp);
  TileMessage tile;
  PanelTarget to;
  const auto receive_next = [&] {
    ptx::barrier_wait(ring.full(state.stage), state.phase);
    tile = receive(ring.message(state.stage));
    to = target<kConfig>(maps, params, tile, warp);
  };
  receive_next();
  if constexpr (kConfig.may_part()) ring.together = tile.segment_begin != 0;
  do {
    if constexpr (kConfig.passes_over()) {
      while (is_large<kConfig>(tile)) {
        compute_large<kConfig>(maps, params, ring, state, out, warp, tile, to, receive_next);
        while (is_large<kConfig>(tile) && !has_lines(tile, to, warp / 4)) {
          skip_stages<kConfig>(ring, state, tile.k_blocks);
          receive_next();
        }
      }
    } else {
      compute_large<kConfig>(maps, params, ring, state, out, warp, tile, to, receive_next);
    }
    if constexpr (!kConfig.wgrad) {
      while (tile.kind == TileMessage::few) {
        compute_few_rows<kConfig>(params, ring, state, out, tile.k_blocks, warp / 4, to);
        receive_next();
      }
    }
    // Spread, large ones may follow; else tiles of few rows are the last.
  } while (kConfig.spread && tile.kind != TileMessage::end);
  out.finish();
}

/// Warp 0 to 7 of the consumers, of what warp of the CTA it is.
template <KernelConfig kConfig>
__device__ __forceinline__ int consumer_warp(int warp) {
  // Kept until here, `warp` is a register too many where so many roles are told apart by it.
  if constexpr (kConfig.hands_over()) return from_lane_0(static_cast<int>(threadIdx.x) / 32 - 4);
  return warp - 4;
}

/// The life of warp 0.
template <KernelConfig kConfig>
__device__ __forceinline__ void produce(const TensorMaps& maps, const KernelParams& params,
                                        const Ring<kConfig>& ring,
                                        const math::RowTileGrid<std::int32_t>& grid,
                                        const GroupTable& table) {
  if constexpr (kConfig.wgrad) {
    produce_weights<kConfig>(maps, params, ring, begin_loading<kConfig>(params, ring));
  } else if constexpr (kConfig.pair) {
    produce_pair<kConfig>(maps, params, ring, grid, table);
  } else {
    produce_rows<kConfig>(maps, params, ring, grid, table, begin_loading<kConfig>(params, ring));
  }
}

/// What warps do that neither load nor multiply, or have copied rows.
template <KernelConfig kConfig>
__device__ __forceinline__ void attend(const KernelParams& params, const Ring<kConfig>& ring,
                                       int warp) {
  if constexpr (kConfig.hands_over()) {
    const int index = kConfig.activation_warp(warp);
    if (index >= 0) ActivationWarp<kConfig>(ring, params, index).run();
  } else if (warp == 1) {
    if (blockIdx.x == 0) record_faults(params);
  } else if constexpr (!kConfig.wgrad) {
    if (params.zero_tail) zero_tail<kConfig>(params, warp - 2);
  }
}

/// `Instance` carries the row of the table as `Instance::kConfig`: nvcc cannot name a kernel whose
/// template argument is a class value.
template <class Instance>
__global__ void __launch_bounds__(Instance::kConfig.threads(), 1)
    grouped_kernel(const __grid_constant__ TensorMaps maps,
                   const __grid_constant__ KernelParams params) {
  constexpr KernelConfig kConfig = Instance::kConfig;
  extern __shared__ __align__(1024) unsigned char smem[];
  Ring<kConfig> ring{{}, ptx::shared_address(smem)};
  auto& table = *reinterpret_cast<GroupTable*>(smem + kConfig.table_begin());  // wgrad has none
  const int warp = static_cast<int>(__shfl_sync(kAllLanes, threadIdx.x / 32, 0));

  if (threadIdx.x == 0) {
    ptx::prefetch_l2(params.offs);  // no read of what may still be written: L2 has the last word
    for (int stage = 0; stage < kConfig.stages; ++stage) {
      ptx::barrier_init(ring.full(stage), kConfig.full_arrivals());
      ptx::barrier_init(ring.empty(stage), kConfig.empty_arrivals());
    }
    if constexpr (kConfig.gather) {
      for (int slot = 0; slot < kGatherSlots; ++slot) {
        ptx::barrier_init(ring.gather_full(slot), 1);
        ptx::barrier_init(ring.gather_empty(slot), kGatherListeners);
      }
    }
    if constexpr (kConfig.pair) {
      for (int slot = 0; slot < kPairSlots; ++slot) {
        ptx::store_shared_v2(ring.pair_slots() + slot * 8U, 0U, 0U);
      }
    }
    if constexpr (kConfig.hands_over()) {
      for (int warpgroup = 0; warpgroup < kConsumerWarpgroups; ++warpgroup) {
        ptx::barrier_init(ring.handed(warpgroup), kConfig.handed_arrivals());
        ptx::barrier_init(ring.taken(warpgroup), kConfig.taken_arrivals());
      }
    }
    ptx::fence_barrier_init();
    if constexpr (kConfig.boxes_of_a()) ptx::prefetch_tensor_map(&maps.a);
    if constexpr (kConfig.boxes_of_b()) ptx::prefetch_tensor_map(&maps.b);
    if constexpr (!kConfig.hands_over()) ptx::prefetch_tensor_map(&maps.d);
    if constexpr (kConfig.boxes_of_b()) ptx::prefetch_tensor_map(&maps.b_few);
    if constexpr (kConfig.boxes_of_a() && !kConfig.wgrad) {
      ptx::prefetch_tensor_map(&maps.a_few);
      ptx::prefetch_tensor_map(&maps.a_fewest);
    }
  }
  if constexpr (kConfig.pair) ptx::cluster_arrive();
  ptx::wait_for_prior_grids();  // every thread: offsets and operands may be theirs
  ptx::allow_next_grid();
  math::RowTileGrid<std::int32_t> grid = params.rows;
  grid.shape = kConfig.row_shape();  // the same, as constants
  if constexpr (kConfig.wgrad) {
    __syncthreads();  // barriers are initialized
  } else {
    build_group_table<kConfig.threads() / 32>(params, grid, table);  // synchronizes the CTA
  }
  if constexpr (kConfig.pair) ptx::cluster_wait();  // the other's barriers are initialized too

  if (warp < 4 || (kConfig.hands_over() && warp >= 4 + kConsumerWarps)) {
    ptx::registers_release<kConfig.other_registers()>();
    if constexpr (kConfig.gather) {
      if (warp > 0 && warp < 4) follow<kConfig>(params, ring);
    }
    if (warp == 0) {
      produce<kConfig>(maps, params, ring, grid, table);
      // Nobody else is free: the other warps are waited for by the consumers.
      if (kConfig.hands_over() && blockIdx.x == 0) record_faults(params);
    } else {
      attend<kConfig>(params, ring, warp);
    }
  } else {
    ptx::registers_take<kConfig.consumer_registers()>();
    consume<kConfig>(maps, params, ring, consumer_warp<kConfig>(warp));
  }
  if constexpr (kConfig.pair) {  // neither leaves while the other may arrive at its barriers
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
}

}  // namespace moesaic::backends::cuda
