// SPDX-License-Identifier: Apache-2.0
// SwiGLU and its derivative by themselves: a warp per row, 16 bytes of H a lane.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/block/row_tile_walk.cuh"
#include "math/expert_segment.hpp"

namespace moesaic::backends::cuda {

/// Matrices [M, h] or [M, 2h], strides in elements.
struct ActivationParams {
  const std::int32_t* offs;
  std::int32_t num_experts;
  std::int64_t max_rows;
  std::int32_t h;
  PartLayout layout;
  const void* u;
  const void* dh;  ///< Backward.
  void* du;        ///< Backward.
  void* h_out;     ///< Backward: or null.
  std::int64_t u_stride, dh_stride, du_stride, h_stride;
};

/// The end of the last segment: one int of the CTA, which this synchronizes.
__device__ inline std::int64_t last_row(const ActivationParams& p) {
  __shared__ int last_end;
  if (threadIdx.x == 0) last_end = 0;
  __syncthreads();
  for (auto expert = static_cast<std::int32_t>(threadIdx.x); expert < p.num_experts;
       expert += static_cast<std::int32_t>(blockDim.x)) {
    atomicMax(&last_end, static_cast<int>(math::expert_rows(p.offs, expert, p.max_rows).end));
  }
  __syncthreads();
  return last_end;
}

/// Eight columns of a row, as four words.
struct Eight {
  std::uint32_t word[4];
};
__device__ __forceinline__ Eight load_eight(const void* matrix, std::int64_t element) {
  const uint4 found =
      *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(matrix) + element);
  return {{found.x, found.y, found.z, found.w}};
}
__device__ __forceinline__ void store_eight(void* matrix, std::int64_t element,
                                            const Eight& value) {
  *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(matrix) + element) =
      uint4{value.word[0], value.word[1], value.word[2], value.word[3]};
}

/// Where either half of eight columns of both parts begins in a row of U.
__device__ __forceinline__ std::int64_t part_begin(const ActivationParams& p, int column,
                                                   int part) {
  return p.layout.interleaved ? 2 * column + 8 * part : p.h * part + column;
}
__device__ __forceinline__ void mix(Eight& first, Eight& second) {
  Eight mixed[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    interleave(first.word[i], second.word[i], mixed[i / 2].word[i % 2 * 2],
               mixed[i / 2].word[i % 2 * 2 + 1]);
  }
  first = mixed[0];
  second = mixed[1];
}
__device__ __forceinline__ void part(Eight& low, Eight& high) {
  const Eight mixed[2] = {low, high};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    separate(mixed[i / 2].word[i % 2 * 2], mixed[i / 2].word[i % 2 * 2 + 1], low.word[i],
             high.word[i]);
  }
}

/// Rows between segments of wrong offsets are made too: nothing reads them.
template <bool kBackward>
__global__ void activation_kernel(const ActivationParams p) {
  const std::int64_t rows = last_row(p);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  for (std::int64_t row = warp; row < rows; row += warps) {
    for (int column = lane_id() * 8; column < p.h; column += 32 * 8) {
      Eight first = load_eight(p.u, row * p.u_stride + part_begin(p, column, 0));
      Eight second = load_eight(p.u, row * p.u_stride + part_begin(p, column, 1));
      if (p.layout.interleaved) part(first, second);
      Eight h;
      if constexpr (kBackward) {
        const Eight dh = load_eight(p.dh, row * p.dh_stride + column);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const DswigluPair pair =
              dswiglu_pair(first.word[i], second.word[i], dh.word[i], p.layout.gate_first);
          first.word[i] = pair.first;
          second.word[i] = pair.second;
          h.word[i] = pair.h;
        }
        if (p.layout.interleaved) mix(first, second);
        store_eight(p.du, row * p.du_stride + part_begin(p, column, 0), first);
        store_eight(p.du, row * p.du_stride + part_begin(p, column, 1), second);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          h.word[i] = swiglu_pair(first.word[i], second.word[i], p.layout.gate_first);
        }
      }
      if (p.h_out != nullptr) store_eight(p.h_out, row * p.h_stride + column, h);
    }
  }
}

}  // namespace moesaic::backends::cuda
