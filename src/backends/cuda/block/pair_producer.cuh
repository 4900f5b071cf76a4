// SPDX-License-Identifier: Apache-2.0
// The producer warp of forward and dgrad where two CTAs are one worker.
#pragma once

#include <cstdint>

#include "backends/cuda/block/producer.cuh"
#include "backends/cuda/block/step.cuh"
#include "backends/cuda/block/tile_queue.cuh"

namespace moesaic::backends::cuda {

/// produce_rows() of a pair: both go through the same tiles, so that the same stages
/// are full of the same tile in either.
template <KernelConfig kConfig>
__device__ __forceinline__ void produce_pair(const TensorMaps& maps, const KernelParams& params,
                                             const Ring<kConfig>& ring,
                                             const math::RowTileGrid<std::int32_t>& grid,
                                             const GroupTable& table) {
  math::PipelineState<kConfig.stages> state;
  const auto cta = static_cast<int>(ptx::cluster_rank());
  const std::int64_t pairs = gridDim.x / kConfig.worker_ctas();
  const std::int64_t pair = blockIdx.x / kConfig.worker_ctas();
  PairQueue queue(*params.counters, ring.pair_slots());
  Step step(*params.counters);
  RowTileWalk walk(params, grid, table, kConfig.worker_ctas());
  math::RowTurns turns(walk.sequence(), grid.columns(), pairs, pair);
  auto tile = walk.find(turns.index());
  while (tile.valid()) {
    const bool shared = turns.shared();
    if (shared) queue.ask();
    // Of half a tile nothing may exist, for both.
    if (tile.columns > 0) {
      step.begin(turns.full_round(), math::ceil_div(params.k, kBlockK));
      load_tile<kConfig>(maps, params, ring, state, math::pair_tile(tile, grid.shape, cta), step);
    }
    turns.advance(shared ? queue.answer() : 0);
    tile = walk.find(turns.index());
  }
  queue.leave();
  send_end<kConfig>(ring, state);
}

}  // namespace moesaic::backends::cuda
