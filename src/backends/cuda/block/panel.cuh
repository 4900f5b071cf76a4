// SPDX-License-Identifier: Apache-2.0
// A warp's fragment in a panel of shared memory: see math/output_panel.hpp.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/ptx/bf16.cuh"
#include "backends/cuda/ptx/shared_memory.cuh"
#include "math/output_panel.hpp"

namespace moesaic::backends::cuda {

/// 32-bit words of a panel that one lane has.
inline constexpr int kPanelWords = kPanelBytes / 4 / 32;

/// 16 columns of 16 bits, `pair` of four: words[2j] has two columns of block j of eight, of row
/// l/4, words[2j + 1] those of eight rows below.
__device__ __forceinline__ void store_matrices(std::uint32_t panel, int pair,
                                               const std::uint32_t* words) {
  ptx::stmatrix_x4(panel + math::matrix_row(lane_id(), pair), words[0], words[1], words[2],
                   words[3]);
}

/// All 64 columns.
__device__ __forceinline__ void store_fragment(std::uint32_t panel,
                                               const std::uint32_t (&words)[kPanelWords]) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) store_matrices(panel, pair, words + 4 * pair);
}

/// Eight columns of 32 bits, `block` of four: words[0] and words[1] are of row l/4, the two that
/// follow of eight rows below.
template <class Word>
__device__ __forceinline__ void store_block(std::uint32_t panel, int block, const Word* words) {
  const std::uint32_t at = panel + math::word_pair(lane_id(), block);
  ptx::store_shared_v2(at, words[0], words[1]);
  ptx::store_shared_v2(at + 8 * math::kPanelLineBytes, words[2], words[3]);
}

}  // namespace moesaic::backends::cuda
