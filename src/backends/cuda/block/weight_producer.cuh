// SPDX-License-Identifier: Apache-2.0
// The producer warp of wgrad.
#pragma once

#include <cstdint>

#include "backends/cuda/block/producer.cuh"
#include "backends/cuda/block/step.cuh"
#include "backends/cuda/block/tile_queue.cuh"
#include "backends/cuda/block/weight_tile_walk.cuh"

namespace moesaic::backends::cuda {

/// A pair's own where there is one.
template <KernelConfig kConfig>
__device__ __forceinline__ auto queue_of(const KernelParams& params, const Ring<kConfig>& ring,
                                         bool together) {
  if constexpr (kConfig.pair) {
    return PairQueue(*params.counters, ring.pair_slots(), together);
  } else {
    return TileQueue(*params.counters);
  }
}

/// What this CTA has of a worker's tile of wgrad in pairs.
template <KernelConfig kConfig>
__device__ __forceinline__ math::WeightPairTile<std::int32_t> own_part(
    const WeightTileWalk<kConfig>& walk, const math::WeightTile<std::int32_t>& tile,
    bool together) {
  if (!together) return {tile};
  return math::weight_pair_tile(tile, walk.grid(), static_cast<int>(ptx::cluster_rank()));
}

/// Where lengths differ, all tiles go to whoever is free, the longest first.
/// Else most are in turns, and the last round's are halved as in forward. Only then are the CTAs of
/// a pair one worker: both read the same offsets, so that they agree.
template <KernelConfig kConfig, class Loading>
__device__ __forceinline__ void produce_weights(const TensorMaps& maps, const KernelParams& params,
                                                const Ring<kConfig>& ring, Loading loading) {
  WeightTileWalk<kConfig> walk(params);
  const bool alike = walk.same_length();
  const unsigned ctas = alike ? kConfig.worker_ctas() : 1;
  const std::int64_t workers = gridDim.x / ctas, worker = blockIdx.x / ctas;
  auto queue = queue_of<kConfig>(params, ring, alike);
  Step step(*params.counters);
  const math::RowTileColumns columns{.large = 1, .elastic = true};
  const math::RowTileSequence order = alike ? math::large_sequence(walk.count(), columns, workers)
                                            : math::RowTileSequence{.large = {walk.count(), 0}};
  math::RowTurns turns(order, columns, workers, worker);
  auto place = math::place_of(order.large, turns.index());
  auto tile = walk.find(place.tile);
  while (tile.valid()) {
    const bool shared = turns.shared();
    if (shared) queue.ask();
    if (place.side >= 0) tile = math::half_of(tile, params.weights, place.side);
    // The right half of a tile may lie past the last column.
    if (tile.k_count > 0) {
      if constexpr (kConfig.pair) {
        step.begin(turns.full_round(), walk.shortest());
        load_tile<kConfig>(maps, params, ring, loading, own_part(walk, tile, alike), step);
      } else {
        load_tile<kConfig>(maps, params, ring, loading, tile);
      }
    }
    turns.advance(shared ? queue.answer() : 0);
    place = math::place_of(order.large, turns.index());
    tile = walk.find(place.tile);
  }
  queue.leave();
  send_end<kConfig>(ring, loading);
}

}  // namespace moesaic::backends::cuda
