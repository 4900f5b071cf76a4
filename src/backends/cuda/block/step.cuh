// SPDX-License-Identifier: Apache-2.0
// Workers in step. Tiles side by side read the same rows and columns, which DRAM gives once only if
// their workers are close together in the contraction: with rows of 14 KiB, and pairs that drift as
// they like, it gave them nearly four times (NB-0015). So nobody goes on in a tile before all have
// come about as far in theirs. It is a courtesy and no barrier: whoever waits for too long goes on,
// since CTAs of a launch need not run at the same time.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/ptx/arithmetic.cuh"
#include "backends/cuda/ptx/sync.cuh"
#include "math/step_marks.hpp"
#include "math/tile_counters.hpp"

namespace moesaic::backends::cuda {

/// All lanes of the producer warp call it, and go the same way as the compiler can see: where a
/// warp may diverge, it takes the operands of bulk copies from ordinary registers, one by one.
class Step {
 public:
  __device__ explicit Step(math::TileCounters& counters) : counters_(counters) {}

  /// A tile of so many stages, or more; `round`: all CTAs of the launch have one like it.
  __device__ void begin(bool round, int stages) {
    marks_.begin(round ? stages : 0);
    expect();
  }

  /// Called with the first stage that is not loaded, from 0 on. @returns up to which to go on.
  __device__ int next(int stage, int stages) {
    using Place = math::StepMarks::Place;
    if (!marks_.any()) return stages;
    const Place place = marks_.place(stage);
    if (place == Place::at_mark) ptx::add_relaxed(&counters_.begun, lane_id() == 0);
    if (place == Place::at_question) answer_ = ptx::load_relaxed(&counters_.begun);
    if (place != Place::at_wait) return marks_.up_to(place);
    wait();
    marks_.go_on();
    expect();
    return marks_.any() ? marks_.up_to(Place::before_mark) : stages;
  }

 private:
  /// Questions in a wait, about 1,000 cycles each: a seventh of a tile of K = 7168.
  static constexpr int kPatience = 16;
  static constexpr int kMostLate = 16;  ///< Waits in vain, after which it waits no more.

  /// At the next mark all are to come.
  __device__ void expect() {
    if (marks_.any()) expected_ += gridDim.x;
  }

  /// By the answer to the last question.
  [[nodiscard]] __device__ bool behind() const {
    const std::uint32_t begun = __shfl_sync(kAllLanes, answer_, 0);
    return static_cast<std::int32_t>(begun - expected_) < 0;
  }

  __device__ void wait() {
    if (late_ == kMostLate) return;
    for (int question = 0; behind(); ++question) {
      if (question == kPatience) {
        ++late_;
        return;
      }
      answer_ = ptx::load_relaxed(&counters_.begun);
    }
  }

  math::TileCounters& counters_;
  math::StepMarks marks_;
  std::uint32_t expected_ = 0, answer_ = 0;
  int late_ = 0;
};

/// Where nothing is to happen between stages.
struct AsYouLike {};

}  // namespace moesaic::backends::cuda
