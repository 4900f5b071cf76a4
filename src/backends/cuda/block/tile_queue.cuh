// SPDX-License-Identifier: Apache-2.0
// How CTAs take tiles that are for whoever is free: by a counter in the workspace.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "math/tile_counters.hpp"

namespace moesaic::backends::cuda {

/// The tiles that nobody has yet. Lane 0 asks early, so that the answer is there when the tile
/// before is done.
class TileQueue {
 public:
  __device__ explicit TileQueue(math::TileCounters& counters) : counters_(counters) {}

  __device__ void ask() {
    if (lane_id() == 0) {
      taken_ = atomicAdd(reinterpret_cast<unsigned long long*>(&counters_.next), 1ULL);
    }
  }
  /// How many were taken before.
  __device__ std::int64_t answer() const {
    return static_cast<std::int64_t>(__shfl_sync(kAllLanes, taken_, 0));
  }
  /// The last CTA of the launch leaves the counters as it found them.
  __device__ void leave() {
    if (lane_id() != 0) return;
    __threadfence();  // every question of this CTA comes before its leave
    if (atomicInc(&counters_.finished, gridDim.x - 1) == gridDim.x - 1) {
      atomicExch(reinterpret_cast<unsigned long long*>(&counters_.next), 0ULL);
    }
  }

 private:
  math::TileCounters& counters_;
  unsigned long long taken_ = 0;
};

}  // namespace moesaic::backends::cuda
