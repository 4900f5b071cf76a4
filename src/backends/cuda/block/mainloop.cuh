// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup's multiply-add over the ring: a stage goes back to the producer as soon as
// its wgmma group is done.
#pragma once

#include <cstdint>

#include "backends/cuda/block/left_operand.cuh"
#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/ptx/wgmma_bf16.cuh"
#include "math/pipeline_phase.hpp"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
using RingState = math::PipelineState<kConfig.stages>;

/// Waits until a stage is full and may be multiplied.
///
/// Gathered rows come by cp.async, that is through the generic proxy, and wgmma reads through the
/// async proxy: a proxy fence must lie on the way from write to read. The copies arrive at the
/// barrier by themselves when they are complete, so that no thread that copies could put one
/// between completion and arrival. Any place on that way will do: here it comes after the wait that
/// observes the arrival and before the wgmmas, in every warp that issues them. The way back needs
/// none: that a wgmma is complete, as wgmma_wait() observes, orders its reads before what the
/// generic proxy writes after release_stage() and the producer's wait.
template <KernelConfig kConfig>
__device__ __forceinline__ void wait_for_operands(const Ring<kConfig>& ring,
                                                  const RingState<kConfig>& state) {
  ptx::barrier_wait(ring.full(state.stage), state.phase);
  if constexpr (kConfig.gather) ptx::fence_async_proxy();
}

/// Issues the multiplications of one stage of a large tile: 64 rows by kColumns columns from kFirst
/// on.
template <int kFirst, int kColumns, KernelConfig kConfig>
__device__ __forceinline__ void multiply_large(const Ring<kConfig>& ring, int stage,
                                               const LeftOperand<kConfig>& left, bool first,
                                               float (&sums)[kColumns / 2]) {
  constexpr bool kMnMajorB = kConfig.wgrad || kConfig.b_mn_major;
  const std::uint64_t b_start =
      math::wgmma_descriptor(ring.b(stage) + kFirst / 64 * kBlockBytes,
                             kMnMajorB ? math::mn_major_operand(kBlockK) : math::k_major_operand());
#pragma unroll
  for (int step = 0; step < kStepsPerStage; ++step) {
    const int b_step = kMnMajorB ? math::mn_major_step_bytes(step)
                                 : math::k_major_step_bytes(step, kConfig.tile_n);
    left.template multiply<kConfig, kColumns>(step, b_start + (b_step >> 4),
                                              first && step == 0 ? 0U : 1U, sums);
  }
}

/// The same for a tile of few rows: both warpgroups have all rows, each half of the columns.
template <KernelConfig kConfig, int kSums>
__device__ __forceinline__ void multiply_few(const Ring<kConfig>& ring, int stage, int warpgroup,
                                             bool first, float (&sums)[kSums]) {
  constexpr bool kMnMajorB = kConfig.b_mn_major;
  const std::uint64_t a_start =
      math::wgmma_descriptor(ring.few_a(stage, 0), math::k_major_operand());
  const std::uint64_t b_start = math::wgmma_descriptor(
      ring.few_b(stage, 0) + static_cast<std::uint32_t>(warpgroup * kBlockBytes),
      kMnMajorB ? math::mn_major_operand(kBlockK) : math::k_major_operand());
#pragma unroll
  for (int panel = 0; panel < kFewBlockK / kBlockK; ++panel) {
    const int a_panel = panel * kFewABytes;
    const int b_panel = panel * kFewBBytes;
#pragma unroll
    for (int step = 0; step < kStepsPerStage; ++step) {
      const int a_step = a_panel + math::k_major_step_bytes(step, kFewRows);
      const int b_step = b_panel + (kMnMajorB ? math::mn_major_step_bytes(step)
                                              : math::k_major_step_bytes(step, kFewColumns));
      ptx::WgmmaBf16<kFewColumns / kConsumerWarpgroups, false, kMnMajorB>::multiply(
          sums, a_start + (a_step >> 4), b_start + (b_step >> 4),
          first && panel == 0 && step == 0 ? 0U : 1U);
    }
  }
}

/// Multiplies `k_blocks` stages, each by `multiply(stage, load(stage), first)`; `load` makes what
/// has to be there before the first wgmma.
template <KernelConfig kConfig, class Load, class Multiply>
__device__ __forceinline__ void multiply_stages(const Ring<kConfig>& ring,
                                                RingState<kConfig>& state, int k_blocks,
                                                bool starts, const Load& load,
                                                const Multiply& multiply) {
  for (int k_block = 0; k_block < k_blocks; ++k_block) {
    wait_for_operands<kConfig>(ring, state);
    const auto loaded = load(state.stage);
    ptx::wgmma_fence();
    multiply(state.stage, loaded, starts && k_block == 0);
    ptx::wgmma_commit();
    // The other warpgroup's multiplications fill the pipe while this one drains; leaving a group in
    // flight kept the stage from the producer for longer and was slower (NB-0003).
    ptx::wgmma_wait<0>();
    release_stage<kConfig>(ring, state.stage);
    state.advance();
  }
}

/// Passes the stages of a tile on unread: this warpgroup has no rows in it.
template <KernelConfig kConfig>
__device__ __forceinline__ void skip_stages(const Ring<kConfig>& ring, RingState<kConfig>& state,
                                            int k_blocks) {
  for (int k_block = 0; k_block < math::max(k_blocks, 1); ++k_block) {
    ptx::barrier_wait(ring.full(state.stage), state.phase);
    __syncwarp();  // one lane releases the stage for all
    release_stage<kConfig>(ring, state.stage);
    state.advance();
  }
}

}  // namespace moesaic::backends::cuda
