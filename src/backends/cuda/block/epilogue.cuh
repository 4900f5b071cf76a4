// SPDX-License-Identifier: Apache-2.0
// From accumulators to global memory: 128-byte-wide panels of 64 rows are rounded into swizzled
// shared memory and stored by bulk copies that clip at the segment, while the next tile's loads are
// already under way.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backends/cuda/block/mainloop.cuh"

namespace moesaic::backends::cuda {

/// Packs two FP32 sums as BF16, the first in the low half; one rounding each, to nearest even.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Writes panel `panel` of a 64-row block into staging. The wgmma fragment gives lane l of warp w
/// rows 16w + l/4 and 8 below, columns 8j + 2(l%4) and the next.
template <KernelConfig kConfig>
__device__ __forceinline__ void stage_panel(
    std::uint32_t staging, const float (&sums)[kConfig.columns_per_warpgroup() / 2], int panel) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp_row = static_cast<int>(threadIdx.x / 32 % 4) * 16;
  if constexpr (!kConfig.f32_out) {
    // Matrices of one stmatrix: rows 0-7 and 8-15 of columns j, then of columns j + 8.
    const int row = warp_row + lane % 16;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const int j = panel * 8 + pair * 2;
      const int chunk = pair * 2 + lane / 16;
      const std::uint32_t at =
          staging + static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row % 8)) * 16));
      ptx::stmatrix_x4(
          at, pack_bf16(sums[4 * j], sums[4 * j + 1]), pack_bf16(sums[4 * j + 2], sums[4 * j + 3]),
          pack_bf16(sums[4 * j + 4], sums[4 * j + 5]), pack_bf16(sums[4 * j + 6], sums[4 * j + 7]));
    }
  } else {
    const int row = warp_row + lane / 4;
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      const int j = panel * 4 + block;
      const int chunk = block * 2 + lane % 4 / 2;
      const std::uint32_t within =
          static_cast<std::uint32_t>(((chunk ^ (row % 8)) * 16) + lane % 2 * 8);
      ptx::store_shared_v2(staging + static_cast<std::uint32_t>(row * 128) + within, sums[4 * j],
                           sums[4 * j + 1]);
      ptx::store_shared_v2(staging + static_cast<std::uint32_t>((row + 8) * 128) + within,
                           sums[4 * j + 2], sums[4 * j + 3]);
    }
  }
}

/// Where the panels of one warpgroup go.
struct PanelTarget {
  const CUtensorMap* map;
  bool ragged_rows;  ///< forward, dgrad: clip at the segment; else a matrix of a weight tensor
  bool add;          ///< FP32 wgrad that accumulates
  std::int64_t segment_begin, segment_rows;
  std::int32_t row;        ///< In the segment, or in dw[e].
  std::int32_t row_limit;  ///< Rows from here on do not exist.
  std::int32_t column, column_limit;
  std::int32_t expert;
};

__device__ __forceinline__ void issue_panel(const PanelTarget& to, std::uint32_t staging, int row,
                                            int column) {
  if (to.ragged_rows) {
    const RaggedCoordinates at = ragged(to.segment_begin, to.segment_rows, row);
    ptx::store_box<4>(to.map, staging, {column, at.row, at.wrap, at.end});
  } else if (to.add) {
    ptx::add_box<3>(to.map, staging, {column, row, to.expert});
  } else {
    ptx::store_box<3>(to.map, staging, {column, row, to.expert});
  }
}

/// Stores a warpgroup's whole part of a tile. `issuer` is one thread of the warpgroup.
template <KernelConfig kConfig>
__device__ __forceinline__ void store_tile(const Ring<kConfig>& ring, int warpgroup, bool issuer,
                                           const Accumulators<kConfig>& sums,
                                           const PanelTarget& to) {
  const std::uint32_t barrier = static_cast<std::uint32_t>(1 + warpgroup);
  int slot = 0;
#pragma unroll
  for (int block = 0; block < kConfig.m64_blocks(); ++block) {
    const int row = to.row + block * kPanelRows;
#pragma unroll
    for (int panel = 0; panel < kConfig.output_panels(); ++panel) {
      const int column = to.column + panel * kConfig.panel_columns();
      const std::uint32_t staging =
          ring.staging(warpgroup) + static_cast<std::uint32_t>(slot * kPanelBytes);
      slot ^= 1;
      if (issuer) ptx::store_wait_read<kStagingPanels - 1>();  // the copy that last used this slot
      ptx::named_barrier(barrier, kWarpgroupThreads);          // everyone may write now
      stage_panel<kConfig>(staging, sums[block], panel);
      ptx::fence_async_proxy();                        // for the copy below
      ptx::named_barrier(barrier, kWarpgroupThreads);  // everyone has written
      if (issuer) {
        if (row < to.row_limit && column < to.column_limit) issue_panel(to, staging, row, column);
        ptx::store_commit();  // also when empty: the wait above counts groups
      }
    }
  }
}

/// BF16 wgrad that accumulates: adds the old values, in FP32, before the one rounding.
template <KernelConfig kConfig>
__device__ __forceinline__ void add_old_bf16(const KernelParams& params, const PanelTarget& to,
                                             Accumulators<kConfig>& sums) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp_row = static_cast<int>(threadIdx.x / 32 % 4) * 16;
  const auto* d = static_cast<const __nv_bfloat16*>(params.d) + to.expert * params.d_expert_stride;
#pragma unroll
  for (int block = 0; block < kConfig.m64_blocks(); ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = to.row + block * 64 + warp_row + lane / 4 + half * 8;
      if (row >= to.row_limit) continue;
      const auto* line = d + row * params.d_row_stride;
#pragma unroll
      for (int j = 0; j < kConfig.columns_per_warpgroup() / 8; ++j) {
        const int column = to.column + j * 8 + lane % 4 * 2;
        if (column < to.column_limit) {
          const auto old = *reinterpret_cast<const __nv_bfloat162*>(line + column);
          sums[block][4 * j + 2 * half] += __low2float(old);
          sums[block][4 * j + 2 * half + 1] += __high2float(old);
        }
      }
    }
  }
}

}  // namespace moesaic::backends::cuda
