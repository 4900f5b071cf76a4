// SPDX-License-Identifier: Apache-2.0
// SwiGLU and its derivative by themselves, y times the weights of its rows, and rows of x that lie
// anywhere: a warp per row, 16 bytes of H, y or x a lane.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/block/row_tile_walk.cuh"
#include "math/expert_segment.hpp"
#include "math/row_gather.hpp"

namespace moesaic::backends::cuda {

/// Which rows are of some expert.
struct RoutedRows {
  const std::int32_t* offs;
  std::int32_t num_experts;
  std::int64_t max_rows;
};

/// Matrices [M, h] or [M, 2h], strides in elements.
struct ActivationParams {
  RoutedRows rows;
  std::int32_t h;
  PartLayout layout;
  const void* u;
  const void* dh;  ///< Backward.
  void* du;        ///< Backward: or null.
  void* h_out;     ///< Backward: or null.
  std::int64_t u_stride, dh_stride, du_stride, h_stride;
  const float* row_weights;  ///< Weighted.
  float* drow_weights;       ///< Backward, weighted: or null.
  bool zero_tail;            ///< Of drow_weights.
};

/// `sums` f32 [M, d] and y [M, d], strides in elements, d a multiple of 8.
struct ScaleRowsParams {
  RoutedRows rows;
  std::int32_t d;
  const float* sums;
  const float* row_weights;
  void* y;
  std::int64_t sums_stride, y_stride;
  bool zero_tail;
};

/// Row m of `taken` is row x_rows[m] of x. Bytes are multiples of 16.
struct TakeRowsParams {
  RoutedRows rows;
  std::int64_t row_bytes;
  std::int32_t num_rows;  ///< Of x.
  const void* x;
  const std::int32_t* x_rows;
  void* taken;
  std::int64_t x_row_bytes, taken_row_bytes;  ///< From one row to the next.
};

/// What all offsets say together, by one CTA.
struct RowsEnd {
  std::int64_t last;  ///< The end of the last valid segment.
  std::int64_t tail;  ///< Where the tail begins.
  bool gaps;          ///< Some offset is wrong: rows before `last` may be nobody's.
};

/// The same on every thread of the CTA, which this synchronizes.
__device__ inline RowsEnd rows_end(const RoutedRows& rows) {
  __shared__ int last_end;
  int wrong = 0;
  if (threadIdx.x == 0) last_end = 0;
  __syncthreads();
  for (auto expert = static_cast<std::int32_t>(threadIdx.x); expert < rows.num_experts;
       expert += static_cast<std::int32_t>(blockDim.x)) {
    atomicMax(&last_end, static_cast<int>(math::expert_rows(rows.offs, expert, rows.max_rows).end));
    if (math::expert_fault(rows.offs, expert, rows.max_rows)) wrong = 1;
  }
  wrong = __syncthreads_or(wrong);
  return {last_end,
          math::tail_begin_after(rows.offs[rows.num_experts - 1], last_end, rows.max_rows),
          wrong != 0};
}

/// Whether a row is of a valid segment; all 32 lanes ask together. Slow: for wrong offsets alone.
__device__ inline bool is_routed(const RoutedRows& rows, std::int64_t row) {
  bool found = false;
  for (std::int32_t expert = lane_id(); expert < rows.num_experts; expert += 32) {
    const math::RowRange segment = math::expert_rows(rows.offs, expert, rows.max_rows);
    found = found || (segment.begin <= row && row < segment.end);
  }
  return __any_sync(kAllLanes, found) != 0;
}

/// The sum over all lanes, on each of them, in one order.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

/// This warp among all of the grid.
struct WarpOfGrid {
  std::int64_t index, count;
};
__device__ __forceinline__ WarpOfGrid warp_of_grid() {
  const std::int64_t per_cta = blockDim.x / 32;
  return {blockIdx.x * per_cta + threadIdx.x / 32, gridDim.x * per_cta};
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

template <bool kBackward, bool kWeighted>
__global__ void activation_kernel(const ActivationParams p) {
  const RowsEnd end = rows_end(p.rows);
  const WarpOfGrid warp = warp_of_grid();
  for (std::int64_t row = warp.index; row < end.last; row += warp.count) {
    if (end.gaps && !is_routed(p.rows, row)) continue;
    const float weight = kWeighted ? p.row_weights[row] : 1.0F;
    float dot = 0;
    for (int column = lane_id() * 8; column < p.h; column += 32 * 8) {
      Eight first = load_eight(p.u, row * p.u_stride + part_begin(p, column, 0));
      Eight second = load_eight(p.u, row * p.u_stride + part_begin(p, column, 1));
      if (p.layout.interleaved) part(first, second);
      Eight h;
      if constexpr (kBackward) {
        const Eight dh = load_eight(p.dh, row * p.dh_stride + column);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          DswigluPair pair;
          if constexpr (kWeighted) {
            pair = weighted_dswiglu_pair(first.word[i], second.word[i], dh.word[i], weight,
                                         p.layout.gate_first, dot);
          } else {
            pair = dswiglu_pair(first.word[i], second.word[i], dh.word[i], p.layout.gate_first);
          }
          first.word[i] = pair.first;
          second.word[i] = pair.second;
          h.word[i] = pair.h;
        }
        if (p.layout.interleaved) mix(first, second);
        if (p.du != nullptr) {
          store_eight(p.du, row * p.du_stride + part_begin(p, column, 0), first);
          store_eight(p.du, row * p.du_stride + part_begin(p, column, 1), second);
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (kWeighted) {
            h.word[i] =
                weighted_swiglu_pair(first.word[i], second.word[i], weight, p.layout.gate_first);
          } else {
            h.word[i] = swiglu_pair(first.word[i], second.word[i], p.layout.gate_first);
          }
        }
      }
      if (p.h_out != nullptr) store_eight(p.h_out, row * p.h_stride + column, h);
    }
    if constexpr (kBackward && kWeighted) {
      dot = warp_sum(dot);
      if (p.drow_weights != nullptr && lane_id() == 0) p.drow_weights[row] = dot;
    }
  }
  if constexpr (kBackward && kWeighted) {
    if (p.drow_weights == nullptr || !p.zero_tail) return;
    for (std::int64_t row = end.tail + warp.index * 32 + lane_id(); row < p.rows.max_rows;
         row += warp.count * 32) {
      p.drow_weights[row] = 0;
    }
  }
}

/// y = weight * sums, rounded once: a warp per row, eight columns a lane.
__global__ void scale_rows_kernel(const ScaleRowsParams p) {
  const RowsEnd end = rows_end(p.rows);
  const WarpOfGrid warp = warp_of_grid();
  for (std::int64_t row = warp.index; row < end.last; row += warp.count) {
    if (end.gaps && !is_routed(p.rows, row)) continue;
    const float weight = p.row_weights[row];
    for (int column = lane_id() * 8; column < p.d; column += 32 * 8) {
      const auto* sums = reinterpret_cast<const float4*>(p.sums + row * p.sums_stride + column);
      const float4 low = sums[0], high = sums[1];
      store_eight(p.y, row * p.y_stride + column,
                  {{ptx::pack_bf16(weight * low.x, weight * low.y),
                    ptx::pack_bf16(weight * low.z, weight * low.w),
                    ptx::pack_bf16(weight * high.x, weight * high.y),
                    ptx::pack_bf16(weight * high.z, weight * high.w)}});
    }
  }
  if (!p.zero_tail) return;
  for (std::int64_t row = end.tail + warp.index; row < p.rows.max_rows; row += warp.count) {
    for (int column = lane_id() * 8; column < p.d; column += 32 * 8) {
      store_eight(p.y, row * p.y_stride + column, {{0, 0, 0, 0}});
    }
  }
}

/// A row that x does not have becomes zeros.
__global__ void take_rows_kernel(const TakeRowsParams p) {
  const RowsEnd end = rows_end(p.rows);
  const WarpOfGrid warp = warp_of_grid();
  for (std::int64_t row = warp.index; row < end.last; row += warp.count) {
    if (end.gaps && !is_routed(p.rows, row)) continue;
    const std::int32_t from = math::gathered_row(p.x_rows[row], p.num_rows);
    const char* source = static_cast<const char*>(p.x) + math::max(from, 0) * p.x_row_bytes;
    char* target = static_cast<char*>(p.taken) + row * p.taken_row_bytes;
#pragma unroll 4
    for (std::int64_t byte = lane_id() * 16; byte < p.row_bytes; byte += 32 * 16) {
      uint4 value{0, 0, 0, 0};
      if (from >= 0) value = *reinterpret_cast<const uint4*>(source + byte);
      *reinterpret_cast<uint4*>(target + byte) = value;
    }
  }
}

}  // namespace moesaic::backends::cuda
