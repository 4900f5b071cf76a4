// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup's multiply-add over the ring: a stage goes back to the producer as soon as
// its wgmma group is done.
#pragma once

#include <cstdint>

#include "backends/cuda/block/producer.cuh"
#include "backends/cuda/ptx/sync.cuh"
#include "backends/cuda/ptx/wgmma_bf16.cuh"
#include "math/pipeline_phase.hpp"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
using Accumulators = float[kConfig.m64_blocks()][kConfig.columns_per_warpgroup() / 2];

/// One warp's arrival frees its share of a stage. The producer waits for the eight consumer warps
/// of every CTA of the cluster, since its copies write into all of them.
template <KernelConfig kConfig>
__device__ __forceinline__ void release_stage(const Ring<kConfig>& ring, int stage) {
  if constexpr (kConfig.cluster == 1) {
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(ring.empty(stage));
  } else {
    if (threadIdx.x % 32 < kConfig.cluster)
      ptx::barrier_arrive_at(ring.empty(stage), threadIdx.x % 32);
  }
}

template <KernelConfig kConfig>
__device__ __forceinline__ void clear(Accumulators<kConfig>& sums) {
#pragma unroll
  for (int block = 0; block < kConfig.m64_blocks(); ++block) {
#pragma unroll
    for (int i = 0; i < kConfig.columns_per_warpgroup() / 2; ++i) sums[block][i] = 0.0F;
  }
}

/// Issues the multiplications of one stage.
template <KernelConfig kConfig>
__device__ __forceinline__ void multiply_stage(const Ring<kConfig>& ring, int stage, int warpgroup,
                                               bool first, Accumulators<kConfig>& sums) {
  constexpr bool kMnMajorA = kConfig.wgrad;
  constexpr bool kMnMajorB = kConfig.wgrad || kConfig.b_mn_major;
  constexpr int kBlockBytes = 64 * 128;  // 64 rows or columns: eight atoms, or one panel
  // A warpgroup's part: its rows of a, or with split_n its columns of b.
  const int a_part = kConfig.split_n ? 0 : warpgroup * kConfig.m64_blocks() * kBlockBytes;
  const int b_part =
      kConfig.split_n ? warpgroup * kConfig.columns_per_warpgroup() / 64 * kBlockBytes : 0;
  const std::uint64_t a_start =
      math::wgmma_descriptor(ring.a(stage) + static_cast<std::uint32_t>(a_part),
                             kMnMajorA ? math::mn_major_operand(kBlockK) : math::k_major_operand());
  const std::uint64_t b_start =
      math::wgmma_descriptor(ring.b(stage) + static_cast<std::uint32_t>(b_part),
                             kMnMajorB ? math::mn_major_operand(kBlockK) : math::k_major_operand());
#pragma unroll
  for (int step = 0; step < kBlockK / math::kWgmmaK; ++step) {
    const int a_step = kMnMajorA ? math::mn_major_step_bytes(step)
                                 : math::k_major_step_bytes(step, kConfig.tile_m);
    const int b_step = kMnMajorB ? math::mn_major_step_bytes(step)
                                 : math::k_major_step_bytes(step, kConfig.tile_n);
#pragma unroll
    for (int block = 0; block < kConfig.m64_blocks(); ++block) {
      ptx::WgmmaBf16<kConfig.columns_per_warpgroup(), kMnMajorA, kMnMajorB>::multiply(
          sums[block], a_start + ((block * kBlockBytes + a_step) >> 4), b_start + (b_step >> 4),
          first && step == 0 ? 0U : 1U);
    }
  }
}

/// Multiplies `k_blocks` stages into `sums`; zero stages give zeros.
template <KernelConfig kConfig>
__device__ __forceinline__ void multiply_tile(const Ring<kConfig>& ring,
                                              math::PipelineState<kConfig.stages>& state,
                                              int warpgroup, int k_blocks,
                                              Accumulators<kConfig>& sums) {
  if constexpr (kConfig.wgrad) {
    if (k_blocks == 0) {  // an expert without rows
      clear<kConfig>(sums);
      return;
    }
  }
  for (int k_block = 0; k_block < k_blocks; ++k_block) {
    ptx::barrier_wait(ring.full(state.stage), state.phase);
    ptx::wgmma_fence();
    multiply_stage<kConfig>(ring, state.stage, warpgroup, k_block == 0, sums);
    ptx::wgmma_commit();
    // The other warpgroup's multiplications fill the pipe while this one drains; leaving a group in
    // flight kept the stage from the producer for longer and was slower (NB-0003).
    ptx::wgmma_wait<0>();
    release_stage<kConfig>(ring, state.stage);
    state.advance();
  }
}

/// Passes stages on unread: this warpgroup has no rows in the tile.
template <KernelConfig kConfig>
__device__ __forceinline__ void skip_tile(const Ring<kConfig>& ring,
                                          math::PipelineState<kConfig.stages>& state,
                                          int k_blocks) {
  for (int k_block = 0; k_block < k_blocks; ++k_block) {
    ptx::barrier_wait(ring.full(state.stage), state.phase);
    release_stage<kConfig>(ring, state.stage);
    state.advance();
  }
}

}  // namespace moesaic::backends::cuda
