// SPDX-License-Identifier: Apache-2.0
// swiglu, dswiglu: consumers do not stop for the activation. They leave their sums, rounded, in
// shared memory, a side of a tile at a time, and go on; other warps take them from there, apply the
// activation and write what comes of it: see activation_warps.cuh. Either consumer warpgroup has
// barriers of its own, since the second may have no rows of a tile.
//
// All lanes write panels, lane 0 the message; after __syncwarp() lane 0 arrives at `handed`, which
// releases what they wrote to the activation warps that wait for it. The way back is the same:
// their lanes read, __syncwarp(), lane 0 arrives at `taken`, and consumers wait for it before they
// write. Ordinary accesses all, so no proxy fence.
#pragma once

#include <cstdint>

#include "backends/cuda/block/panel.cuh"
#include "backends/cuda/block/ring.cuh"
#include "math/pipeline_phase.hpp"

namespace moesaic::backends::cuda {

/// What the consumers leave: a CTA's part of a side of a tile.
struct HandedSide {
  std::int32_t row;     ///< The first, of the buffer.
  std::int32_t rows;    ///< Of the segment from there on; 0: no side follows.
  std::int32_t column;  ///< The first, of the product.
};
static_assert(sizeof(HandedSide) <= kHandedSideBytes);

/// A consumer warp's end of it.
template <KernelConfig kConfig>
class HandOver {
 public:
  /// Of two columns; a lane's fragment of both panels.
  static constexpr int kWords = kStagingPanels * kPanelWords;

  __device__ HandOver(const Ring<kConfig>& ring, int warp) : ring_(ring), warp_(warp) {}

  /// Leaves a side, once the one before has been taken.
  __device__ __forceinline__ void give(const std::uint32_t (&words)[kWords],
                                       const HandedSide& side) {
    const int warpgroup = warp_ / 4;
    wait_until_taken(warpgroup);
    const std::uint32_t panels = ring_.staging(warp_);
#pragma unroll
    for (int pair = 0; pair < 4 * kStagingPanels; ++pair) {
      store_matrices(panels + pair / 4 * kPanelBytes, pair % 4, words + 4 * pair);
    }
    pass(side, warpgroup);
  }

  /// After the last. Warpgroup 0 has rows of every tile that the CTA has any of.
  __device__ __forceinline__ void finish() {
    if (warp_ >= 4) return;
    wait_until_taken(0);
    pass({}, 0);
  }

 private:
  __device__ __forceinline__ void wait_until_taken(int warpgroup) const {
    ptx::barrier_wait(ring_.taken(warpgroup), math::producer_parity(phase_));
  }
  __device__ __forceinline__ void pass(const HandedSide& side, int warpgroup) {
    const bool first = lane_id() == 0;
    if (first && warp_ == 0) {
      ptx::store_shared_v4(ring_.handed_side(), side.row, side.rows, side.column, 0);
    }
    __syncwarp();
    if (first) ptx::barrier_arrive(ring_.handed(warpgroup));
    phase_ ^= 1U;
  }

  const Ring<kConfig>& ring_;
  int warp_;
  std::uint32_t phase_ = 0;
};

}  // namespace moesaic::backends::cuda
