// SPDX-License-Identifier: Apache-2.0
// The producer warp: finds this CTA's tiles, tells the consumers of each, and fills its stages. All
// lanes run the loops; one elected lane issues.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cuda/block/pair.cuh"
#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/block/row_tile_walk.cuh"
#include "backends/cuda/block/stage_loads.cuh"
#include "backends/cuda/block/step.cuh"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/block/tile_queue.cuh"
#include "backends/cuda/block/weight_tile_walk.cuh"
#include "backends/cuda/ptx/tensor_copy.cuh"
#include "math/halved_tiles.hpp"
#include "math/pipeline_phase.hpp"

namespace moesaic::backends::cuda {

/// What the consumers are told of a tile.
template <KernelConfig kConfig>
__device__ __forceinline__ TileMessage describe(const KernelParams& params,
                                                const math::RowTile<std::int32_t>& tile) {
  const auto begin = static_cast<std::int32_t>(tile.row_begin) - tile.row;
  const bool few = tile.kind == math::RowTileKind::few;
  const int block_k = few ? kFewBlockK : kBlockK;
  return {few         ? TileMessage::few
          : tile.half ? TileMessage::half
                      : TileMessage::large,
          math::ceil_div(params.k, block_k),
          tile.row,
          static_cast<std::int32_t>(tile.column_begin),
          begin,
          static_cast<std::int32_t>(tile.segment_end) - begin,
          0,
          0};
}

template <KernelConfig kConfig>
__device__ __forceinline__ TileMessage describe(const KernelParams& /*params*/,
                                                const math::WeightTile<std::int32_t>& tile) {
  return {tile.half ? TileMessage::half : TileMessage::large,
          tile.row_blocks,
          static_cast<std::int32_t>(tile.n_begin),
          static_cast<std::int32_t>(tile.k_begin),
          0,
          0,
          tile.expert,
          0};
}

template <KernelConfig kConfig>
__device__ __forceinline__ TileMessage describe(const KernelParams& params,
                                                const math::WeightPairTile<std::int32_t>& tile) {
  const math::WeightTile<std::int32_t>& own = tile;
  TileMessage message = describe<kConfig>(params, own);
  message.segment_begin = tile.together ? 1 : 0;
  return message;
}

/// How L2 is to keep the weights of a tile. Where one raster group has all rows of the expert,
/// nobody reads them again later (NB-0009).
__device__ __forceinline__ std::uint64_t weight_policy(
    const math::RowTileShape<std::int32_t>& shape, const math::RowTile<std::int32_t>& tile) {
  const std::int64_t rows = tile.segment_end - tile.row_begin + tile.row;
  return rows <= shape.group_m * shape.tile_m ? ptx::l2_evict_first() : ptx::l2_evict_normal();
}

/// What one lane does for a stage: tells the consumers of the tile in its first, copies operands.
template <KernelConfig kConfig, class Tile>
__device__ __forceinline__ void fill_stage(const TensorMaps& maps, const KernelParams& params,
                                           const Ring<kConfig>& ring, int stage, const Tile& tile,
                                           const TileMessage& message, int k_block,
                                           std::uint64_t policy) {
  if (k_block == 0) send(ring.message(stage), message);
  if constexpr (kConfig.wgrad) {
    if (message.k_blocks > 0) {
      load_weight_stage<kConfig>(maps, params, ring, stage, tile, k_block);
    } else {
      ptx::barrier_arrive(ring.full(stage));
    }
  } else if (message.kind == TileMessage::few) {
    load_few_rows_stage<kConfig>(maps, params, ring, stage, tile, k_block, policy);
  } else if constexpr (kConfig.pair) {
    load_pair_stage<kConfig>(maps, params, ring, stage, tile, k_block, policy);
  } else {
    load_row_stage<kConfig>(maps, params, ring, stage, tile, k_block, policy);
  }
}

/// Tells the consumers of a tile and loads its stages.
template <KernelConfig kConfig, class Tile, class Pace = AsYouLike>
__device__ __forceinline__ void load_tile(const TensorMaps& maps, const KernelParams& params,
                                          const Ring<kConfig>& ring,
                                          math::PipelineState<kConfig.stages>& state,
                                          const Tile& tile, Pace&& pace = {}) {
  const TileMessage message = describe<kConfig>(params, tile);
  // A tile without stages of its own takes one for its message.
  const int stages = math::max(message.k_blocks, 1);
  std::uint64_t policy = 0;
  if constexpr (!kConfig.wgrad) {
    policy = weight_policy(kConfig.row_shape(), tile);
  }
  int k_block = 0;
  const auto load_until = [&](int end) {
    for (; k_block < end; ++k_block) {
      ptx::barrier_wait(ring.empty(state.stage), math::producer_parity(state.phase));
      if (ptx::elect_one()) {
        fill_stage<kConfig>(maps, params, ring, state.stage, tile, message, k_block, policy);
      }
      __syncwarp();
      state.advance();
    }
  };
  if constexpr (std::is_same_v<Pace, AsYouLike>) {
    load_until(stages);
  } else {
    while (k_block < stages) load_until(pace.next(k_block, stages));
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void send_end(const Ring<kConfig>& ring,
                                         const math::PipelineState<kConfig.stages>& state) {
  ptx::barrier_wait(ring.empty(state.stage), math::producer_parity(state.phase));
  if (ptx::elect_one()) {
    send(ring.message(state.stage), {.kind = TileMessage::end});
    ptx::barrier_arrive(ring.full(state.stage));
  }
}

/// The producer warp's life in forward and dgrad. Whole large tiles are equally long: most are
/// taken in turns, so that CTAs side by side share columns of b at the same time; that saves energy
/// (NB-0005). The last of many, and the smaller ones that follow, go to whoever is free; spread,
/// most of those of few rows come between. `loading` is where it is in the ring, or leads three
/// other warps: see begin_loading().
template <KernelConfig kConfig, class Loading>
__device__ __forceinline__ void produce_rows(const TensorMaps& maps, const KernelParams& params,
                                             const Ring<kConfig>& ring,
                                             const math::RowTileGrid<std::int32_t>& grid,
                                             const GroupTable& table, Loading loading) {
  TileQueue queue(*params.counters);
  RowTileWalk walk(params, grid, table);
  math::RowTurns turns(walk.sequence(), grid.columns(), gridDim.x, blockIdx.x);
  auto tile = walk.find(turns.index());
  while (tile.valid()) {
    const bool shared = turns.shared();
    if (shared) queue.ask();
    // Of half a tile nothing may exist.
    if (tile.columns > 0) load_tile<kConfig>(maps, params, ring, loading, tile);
    turns.advance(shared ? queue.answer() : 0);
    tile = walk.find(turns.index());
  }
  queue.leave();
  send_end<kConfig>(ring, loading);
}

}  // namespace moesaic::backends::cuda
