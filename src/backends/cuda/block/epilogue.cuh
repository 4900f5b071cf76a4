// SPDX-License-Identifier: Apache-2.0
// From accumulators to global memory. Each warp rounds its own 16 rows, a 128-byte-wide panel at a
// time, into its own swizzled shared memory and stores it by a bulk copy that clips at the segment:
// no warp waits for another, and the next tile's loads are under way.
#pragma once

#include <cstdint>

#include "backends/cuda/block/panel.cuh"
#include "backends/cuda/block/ring.cuh"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/ptx/tensor_copy.cuh"

namespace moesaic::backends::cuda {

/// Rounds panel `panel` of a warp's sums and writes it into staging.
template <bool kF32Out, int kSums>
__device__ __forceinline__ void stage_panel(std::uint32_t staging, const float (&sums)[kSums],
                                            int panel) {
  if constexpr (kF32Out) {
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      store_block(staging, block, sums + panel * kPanelWords + 4 * block);
    }
  } else {
    std::uint32_t words[kPanelWords];
#pragma unroll
    for (int i = 0; i < kPanelWords; ++i) {
      const int first = 2 * (panel * kPanelWords + i);
      words[i] = ptx::pack_bf16(sums[first], sums[first + 1]);
    }
    store_fragment(staging, words);
  }
}

/// The same, times the weights of the lane's row and of that eight below.
template <int kSums>
__device__ __forceinline__ void stage_weighted_panel(std::uint32_t staging,
                                                     const float (&sums)[kSums], int panel,
                                                     const float (&weights)[2]) {
  std::uint32_t words[kPanelWords];
#pragma unroll
  for (int i = 0; i < kPanelWords; ++i) {
    const int first = 2 * (panel * kPanelWords + i);
    words[i] = ptx::pack_bf16(weights[i % 2] * sums[first], weights[i % 2] * sums[first + 1]);
  }
  store_fragment(staging, words);
}

/// Where the panels of one warp go.
struct PanelTarget {
  const CUtensorMap* map;
  bool ragged_rows;  ///< forward, dgrad: clip at the segment; else a matrix of a weight tensor
  bool add;          ///< FP32 wgrad that accumulates
  std::int32_t segment_begin, segment_rows;
  std::int32_t row;        ///< The warp's first, in the segment or in dw[e].
  std::int32_t row_limit;  ///< Rows from here on do not exist.
  std::int32_t column, column_limit;
  std::int32_t expert;
  float weights[2];  ///< row_weights: of this lane's row, and of that eight below.
};

/// wgrad: whether a warpgroup has lines of dw[e] in a tile; pairs: rows of the segment in a large
/// one.
__device__ __forceinline__ bool has_lines(const TileMessage& tile, const PanelTarget& to,
                                          int warpgroup) {
  return tile.row + warpgroup * kBlockRows < to.row_limit;
}

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

/// A warp's staged panels, taken in turn for as long as the kernel runs: the copies of one tile may
/// still be reading when the next is stored.
class Staging {
 public:
  __device__ explicit Staging(std::uint32_t begin) : begin_(begin) {}

  /// Where the next panel goes, once the copy that last read from there has done so.
  __device__ std::uint32_t next(bool issuer) {
    const std::uint32_t at = begin_ + static_cast<std::uint32_t>(slot_ * kPanelBytes);
    slot_ = slot_ + 1 == kStagingPanels ? 0 : slot_ + 1;
    if (issuer) ptx::store_wait_read<kStagingPanels - 1>();
    __syncwarp();
    return at;
  }

  /// Shared memory must outlive the copies' reads.
  __device__ void finish() const {
    if (lane_id() == 0) ptx::store_wait_read<0>();
  }

 private:
  std::uint32_t begin_;
  int slot_ = 0;
};

/// Stores panels [kFirst, kEnd) of a warp's part of a tile.
template <KernelConfig kConfig, int kFirst, int kEnd, int kSums>
__device__ __forceinline__ void store_panels(Staging& staging, const float (&sums)[kSums],
                                             const PanelTarget& to) {
  const bool issuer = lane_id() == 0;
#pragma unroll
  for (int panel = kFirst; panel < kEnd; ++panel) {
    const int column = to.column + panel * kConfig.panel_columns();
    const std::uint32_t at = staging.next(issuer);
    if constexpr (kConfig.row_weights) {
      stage_weighted_panel(at, sums, panel, to.weights);
    } else {
      stage_panel<kConfig.f32_out>(at, sums, panel);
    }
    ptx::fence_async_proxy();  // for the copy below
    __syncwarp();
    if (issuer) {
      if (to.row < to.row_limit && column < to.column_limit) issue_panel(to, at, to.row, column);
      ptx::store_commit();  // also when empty: the wait above counts groups
    }
  }
}

/// BF16 wgrad that accumulates: adds the old values, in FP32, before the one rounding.
template <int kSums>
__device__ __forceinline__ void add_old_bf16(const KernelParams& params, const PanelTarget& to,
                                             float (&sums)[kSums]) {
  const int lane = lane_id();
  const auto* d = static_cast<const __nv_bfloat16*>(params.d) + to.expert * params.d_expert_stride;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = to.row + lane / 4 + half * 8;
    if (row >= to.row_limit) continue;
    const auto* line = d + row * params.d_row_stride;
#pragma unroll
    for (int j = 0; j < kSums / 4; ++j) {
      const int column = to.column + j * 8 + lane % 4 * 2;
      if (column < to.column_limit) {
        const auto old = *reinterpret_cast<const __nv_bfloat162*>(line + column);
        sums[4 * j + 2 * half] += __low2float(old);
        sums[4 * j + 2 * half + 1] += __high2float(old);
      }
    }
  }
}

}  // namespace moesaic::backends::cuda
