// SPDX-License-Identifier: Apache-2.0
// 64 rows of a stage's left operand, as a consumer warpgroup multiplies them. K-major ones are read
// by wgmma from shared memory. MN-major ones (wgrad) are loaded to registers once: two
// multiplications of half the columns each would read and transpose them twice (NB-0010).
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/ptx/wgmma_bf16.cuh"

namespace moesaic::backends::cuda {

inline constexpr int kStepsPerStage = kBlockK / math::kWgmmaK;

class LeftInSharedMemory {
 public:
  template <KernelConfig kConfig>
  __device__ __forceinline__ LeftInSharedMemory(const Ring<kConfig>& ring, int stage, int warpgroup)
      : start_(math::wgmma_descriptor(
            ring.a(stage) + static_cast<std::uint32_t>(warpgroup * kBlockBytes),
            math::k_major_operand())) {}

  /// sums (+)= the step's 64 x 16 by b's 16 x kColumns.
  template <KernelConfig kConfig, int kColumns>
  __device__ __forceinline__ void multiply(int step, std::uint64_t b, std::uint32_t scale_d,
                                           float (&sums)[kColumns / 2]) const {
    ptx::WgmmaBf16<kColumns, false, kConfig.b_mn_major>::multiply(
        sums, start_ + (math::k_major_step_bytes(step, kConfig.tile_m) >> 4), b, scale_d);
  }

 private:
  std::uint64_t start_;
};

class LeftInRegisters {
 public:
  template <KernelConfig kConfig>
  __device__ __forceinline__ LeftInRegisters(const Ring<kConfig>& ring, int stage, int warpgroup) {
    const math::OperandElement source =
        math::left_fragment_source(static_cast<int>(threadIdx.x / 32 % 4), lane_id());
    const std::uint32_t from =
        ring.a(stage) + static_cast<std::uint32_t>(warpgroup * kBlockBytes) +
        static_cast<std::uint32_t>(math::mn_major_offset(source.mn, source.k, kBlockK));
#pragma unroll
    for (int step = 0; step < kStepsPerStage; ++step) {
      auto& word = words_[step];
      ptx::ldmatrix_x4_trans(from + static_cast<std::uint32_t>(math::mn_major_step_bytes(step)),
                             word[0], word[1], word[2], word[3]);
    }
  }

  template <KernelConfig kConfig, int kColumns>
  __device__ __forceinline__ void multiply(int step, std::uint64_t b, std::uint32_t scale_d,
                                           float (&sums)[kColumns / 2]) const {
    ptx::WgmmaBf16Registers<kColumns, true>::multiply(sums, words_[step], b, scale_d);
  }

 private:
  std::uint32_t words_[kStepsPerStage][4];
};

template <KernelConfig kConfig>
using LeftOperand = std::conditional_t<kConfig.wgrad, LeftInRegisters, LeftInSharedMemory>;

}  // namespace moesaic::backends::cuda
