// SPDX-License-Identifier: Apache-2.0
// How CTAs take tiles that are for whoever is free: by a counter in the workspace.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/ptx/cluster.cuh"
#include "math/pair_answers.hpp"
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

/// The same for the two CTAs of a pair. Together they take the same tiles: CTA 0 asks, and passes
/// each answer on to the other through its shared memory; see math::PairAnswers.
class PairQueue {
 public:
  /// `slots`: a word for each slot, and one for what comes back.
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
    if (!asks_) return hear();
    const std::int64_t taken = queue_.answer();
    if (tells_) tell(taken);
    return taken;
  }
  __device__ void leave() { queue_.leave(); }

 private:
  using Answers = math::PairAnswers;

  [[nodiscard]] __device__ std::uint32_t slot() const {
    return slots_ + Answers::slot(count_) * 8U;
  }
  [[nodiscard]] __device__ std::uint32_t way_back() const { return slots_ + Answers::kSlots * 8U; }
  /// By a shuffle: all lanes have the same, as the compiler can see; compare Step.
  static __device__ std::uint64_t load(std::uint32_t at) {
    return __shfl_sync(kAllLanes, ptx::load_shared_word(at, lane_id() == 0), 0);
  }

  __device__ void tell(std::int64_t taken) const {
    while (!Answers::may_write(count_, static_cast<std::uint32_t>(load(way_back())))) {
    }
    if (lane_id() == 0) ptx::store_shared_in(slot(), 1, Answers::word(count_, taken));
  }
  [[nodiscard]] __device__ std::int64_t hear() const {
    std::uint64_t word = load(slot());
    while (!Answers::is_answer(word, count_)) word = load(slot());
    if (lane_id() == 0) ptx::store_shared_in(way_back(), 0, count_);
    return Answers::taken(word);
  }

  TileQueue queue_;
  std::uint32_t slots_;
  bool asks_ = false, tells_ = false;
  std::uint32_t count_ = 0;
};

}  // namespace moesaic::backends::cuda
