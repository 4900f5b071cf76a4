// SPDX-License-Identifier: Apache-2.0
// Copies between ragged rows and a padded [E, C, columns] batch, 16 bytes a thread, and the fault
// record of the baselines, which have no kernel of their own to keep it.
#pragma once

#include <cstdint>

#include "backends/cuda/block/row_tile_walk.cuh"
#include "math/expert_segment.hpp"

namespace moesaic::backends::cuda {

struct PaddingParams {
  const std::int32_t* offs;
  std::int32_t num_experts;
  std::int64_t max_rows, capacity;
  const unsigned char* ragged;  ///< [M, columns]
  unsigned char* ragged_out;    ///< The same, when written.
  std::int64_t ragged_pitch_bytes;
  unsigned char* padded;  ///< Dense [E, C, columns].
  std::int64_t row_bytes;
  bool skip_overfull;  ///< wgrad: experts with more than C rows are computed elsewhere, whole.
  bool zero_tail;
};

/// Rows of the expert that the batch holds.
__device__ __forceinline__ std::int64_t held_rows(const PaddingParams& p,
                                                  const math::RowRange& rows) {
  if (rows.rows() <= p.capacity) return rows.rows();
  return p.skip_overfull ? 0 : p.capacity;
}

/// One warp per padded row: copies it, or zeroes it where the expert has none.
__global__ void pad_kernel(const PaddingParams p) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  std::int64_t slot = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  for (; slot < p.num_experts * p.capacity; slot += warps) {
    const auto expert = static_cast<std::int32_t>(slot / p.capacity);
    const std::int64_t row = slot - expert * p.capacity;
    const math::RowRange rows = math::expert_rows(p.offs, expert, p.max_rows);
    const bool held = row < held_rows(p, rows);
    const unsigned char* from = p.ragged + (rows.begin + row) * p.ragged_pitch_bytes;
    unsigned char* to = p.padded + slot * p.row_bytes;
    for (std::int64_t byte = lane_id() * 16; byte < p.row_bytes; byte += 32 * 16) {
      *reinterpret_cast<uint4*>(to + byte) =
          held ? *reinterpret_cast<const uint4*>(from + byte) : uint4{0, 0, 0, 0};
    }
  }
}

/// One warp per padded row: copies it back where the expert has it; then zeroes the tail if asked.
__global__ void unpad_kernel(const PaddingParams p) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / 32);
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  for (std::int64_t slot = warp; slot < p.num_experts * p.capacity; slot += warps) {
    const auto expert = static_cast<std::int32_t>(slot / p.capacity);
    const std::int64_t row = slot - expert * p.capacity;
    const math::RowRange rows = math::expert_rows(p.offs, expert, p.max_rows);
    if (row >= held_rows(p, rows)) continue;
    const unsigned char* from = p.padded + slot * p.row_bytes;
    unsigned char* to = p.ragged_out + (rows.begin + row) * p.ragged_pitch_bytes;
    for (std::int64_t byte = lane_id() * 16; byte < p.row_bytes; byte += 32 * 16) {
      *reinterpret_cast<uint4*>(to + byte) = *reinterpret_cast<const uint4*>(from + byte);
    }
  }
  if (!p.zero_tail) return;
  __shared__ int last_end;
  if (threadIdx.x == 0) last_end = 0;
  __syncthreads();
  for (auto expert = static_cast<std::int32_t>(threadIdx.x); expert < p.num_experts;
       expert += static_cast<std::int32_t>(blockDim.x)) {
    atomicMax(&last_end, static_cast<int>(math::expert_rows(p.offs, expert, p.max_rows).end));
  }
  __syncthreads();
  const std::int64_t first =
      math::tail_begin_after(p.offs[p.num_experts - 1], last_end, p.max_rows);
  for (std::int64_t row = first + warp; row < p.max_rows; row += warps) {
    unsigned char* line = p.ragged_out + row * p.ragged_pitch_bytes;
    for (std::int64_t byte = lane_id() * 16; byte < p.row_bytes; byte += 32 * 16) {
      *reinterpret_cast<uint4*>(line + byte) = uint4{0, 0, 0, 0};
    }
  }
}

/// One CTA: the lowest bad expert, and the rows beyond capacity of all experts.
__global__ void record_kernel(const std::int32_t* offs, std::int32_t num_experts,
                              std::int64_t max_rows, std::int64_t capacity,
                              unsigned long long* fault_word, long long* overflow_rows) {
  __shared__ unsigned long long overflow;
  if (threadIdx.x == 0) overflow = 0;
  __syncthreads();
  std::uint64_t word = 0;
  for (auto expert = static_cast<std::int32_t>(threadIdx.x); expert < num_experts;
       expert += static_cast<std::int32_t>(blockDim.x)) {
    word =
        math::combine_faults(word, math::encode_fault(math::expert_fault(offs, expert, max_rows)));
    const std::int64_t rows = math::expert_rows(offs, expert, max_rows).rows();
    if (rows > capacity) atomicAdd(&overflow, static_cast<unsigned long long>(rows - capacity));
  }
  if (word != 0) atomicMax(fault_word, static_cast<unsigned long long>(word));
  __syncthreads();
  if (threadIdx.x == 0) *overflow_rows = static_cast<long long>(overflow);
}

}  // namespace moesaic::backends::cuda
