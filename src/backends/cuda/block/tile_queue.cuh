// SPDX-License-Identifier: Apache-2.0
// How CTAs take tiles that are for whoever is free: by a counter in the workspace.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/ptx/cluster.cuh"
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
      atomicExch(&counters_.begun, 0U);
    }
  }

 private:
  math::TileCounters& counters_;
  unsigned long long taken_ = 0;
};

/// The same for the two CTAs of a pair. Together they take the same tiles: CTA 0 asks, and writes
/// each answer into the other's shared memory, with a number by which the other knows that it is
/// there. The slots go round; the rings let CTA 0 be at most a tile a stage ahead (kPairSlots).
class PairQueue {
 public:
  __device__ PairQueue(math::TileCounters& counters, std::uint32_t slots, bool together = true)
      : queue_(counters), slots_(slots) {
    const bool first = __shfl_sync(kAllLanes, ptx::cluster_rank(), 0) == 0;
    asks_ = !together || first;
    tells_ = together && first;
  }

  __device__ void ask() {
    if (asks_) queue_.ask();
  }
  __device__ std::int64_t answer() {
    ++count_;
    const std::uint32_t slot = slots_ + count_ % kPairSlots * 8U;
    std::uint64_t word = 0;
    if (asks_) {
      const auto taken = static_cast<std::uint64_t>(queue_.answer());
      word = taken << kCountBits | count_ % (1U << kCountBits);
      if (tells_ && lane_id() == 0) ptx::store_shared_in(slot, 1, word);
    } else {
      do {
        word = __shfl_sync(kAllLanes, ptx::load_shared_word(slot), 0);
      } while (word % (1U << kCountBits) != count_ % (1U << kCountBits));
    }
    return static_cast<std::int64_t>(word >> kCountBits);
  }
  __device__ void leave() { queue_.leave(); }

 private:
  static constexpr int kCountBits = 16;
  TileQueue queue_;
  std::uint32_t slots_;
  bool asks_ = false, tells_ = false;
  std::uint32_t count_ = 0;
};

}  // namespace moesaic::backends::cuda
