// SPDX-License-Identifier: Apache-2.0
// The warps that apply the activation to what the consumers hand over, while these multiply the
// next tile. A warp takes four rows of a side at a time, each lane eight columns of either panel of
// a row: what is read and written goes between registers and global memory in whole lines of 128
// bytes (of an interleaved U in halves of two lines). What does not exist is neither read nor
// written, but computed: without branches the elements' chains fill each other's latency.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/block/hand_over.cuh"
#include "backends/cuda/block/part_chunks.cuh"
#include "math/side_units.hpp"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
class ActivationWarp {
 public:
  /// `warp`: 0 to kConfig.activation_warps() - 1.
  __device__ ActivationWarp(const Ring<kConfig>& ring, const KernelParams& params, int warp)
      : ring_(ring), expert_(params.expert), units_(warp) {}

  __device__ __forceinline__ void run() {
    for (std::uint32_t phases = 0;; phases ^= 1U) {  // a bit of either warpgroup
      ptx::barrier_wait(ring_.handed(0), phases & 1U);
      const HandedSide side = hear();
      if (side.rows <= 0) return;
      const bool both = side.rows > kBlockRows;
      if (both) {
        ptx::barrier_wait(ring_.handed(1), phases >> 1);
        phases ^= 2U;
      }
      apply(side);
      __syncwarp();
      if (lane_id() == 0) {
        ptx::barrier_arrive(ring_.taken(0));
        if (both) ptx::barrier_arrive(ring_.taken(1));
      }
    }
  }

 private:
  using Units = math::SideUnits<kConfig.activation_warps()>;

  /// Lane 0 reads, since it is the one that arrives afterwards: its own order is enough.
  [[nodiscard]] __device__ __forceinline__ HandedSide hear() const {
    int4 words{};
    if (lane_id() == 0) words = ptx::load_shared_v4(ring_.handed_side());
    return {from_lane_0(words.x), from_lane_0(words.y), from_lane_0(words.z)};
  }

  __device__ __forceinline__ void apply(const HandedSide& side) {
    if constexpr (kConfig.epilogue == Epilogue::swiglu) {
      forward(side);
    } else {
      backward(side);
    }
  }

  /// The panels are both parts of U of 64 columns of H.
  __device__ __forceinline__ void forward(const HandedSide& side) {
    const int rows = math::min(side.rows, kConfig.tile_m);
    const int column = side.column / 2 + lane_id() % 8 * 8;
    const bool exists = column < expert_.h;
    const int first = units_.row() + lane_row();
    const PartLayout& layout = expert_.layout;
    PartChunks<char> u(layout, expert_.h, expert_.u, expert_.u_stride, side.row + first, column);
    RowChunks h_to(expert_.h_out, expert_.h_stride, side.row + first, column);
    units_.for_each(rows, [&](int unit_row) {
      const int row = unit_row + lane_row();
      Chunk up, gate, h;
      load_panel(row, layout.gate_first ? 1 : 0, up);
      load_panel(row, layout.gate_first ? 0 : 1, gate);
#pragma unroll
      for (int i = 0; i < 4; ++i) h[i] = swiglu_pair(up[i], gate[i], false);
      const bool made = exists && row < rows;
      if (expert_.u != nullptr) u.store(0, up, gate, made);
      h_to.store(0, h, made);
      u.advance(Units::kStep);
      h_to.advance(Units::kStep);
    });
  }

  /// The panels are 128 columns of dH.
  __device__ __forceinline__ void backward(const HandedSide& side) {
    const int rows = math::min(side.rows, kConfig.tile_m);
    const int column = side.column + lane_id() % 8 * 8;
    const bool exists[kStagingPanels] = {column < expert_.h, column + 64 < expert_.h};
    const int first = units_.row() + lane_row();
    const PartLayout& layout = expert_.layout;
    PartChunks<const char> saved(layout, expert_.h, expert_.saved_u, expert_.saved_u_stride,
                                 side.row + first, column);
    PartChunks<char> du(layout, expert_.h, expert_.u, expert_.u_stride, side.row + first, column);
    RowChunks h_to(expert_.h_out, expert_.h_stride, side.row + first, column);
    Chunk next[kStagingPanels][2];  // of U, on the way
#pragma unroll
    for (int c = 0; c < kStagingPanels; ++c) {
      saved.load(c, next[c], first < rows && exists[c]);
    }
    units_.for_each(rows, [&](int unit_row) {
      const int row = unit_row + lane_row();
      saved.advance(Units::kStep);
#pragma unroll
      for (int c = 0; c < kStagingPanels; ++c) {
        Chunk up, gate, h;
        load_panel(row, c, h);
        saved.apart(next[c], up, gate);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const DswigluWords words = dswiglu_words(up[i], gate[i], h[i]);
          up[i] = words.dup;
          gate[i] = words.dgate;
          h[i] = words.h;
        }
        saved.load(c, next[c], row + Units::kStep < rows && exists[c]);
        const bool made = exists[c] && row < rows;
        du.store(c, up, gate, made);
        h_to.store(c, h, made && expert_.h_out != nullptr);
      }
      du.advance(Units::kStep);
      h_to.advance(Units::kStep);
    });
  }

  /// Of a unit's, the lane's.
  [[nodiscard]] __device__ static int lane_row() { return lane_id() / 8; }

  /// The lane's columns of a row of the side in panel 0 or 1.
  __device__ __forceinline__ void load_panel(int row, int panel, Chunk& words) const {
    ptx::load_shared_v4(ring_.staging(row / kPanelRows) + panel * kPanelBytes +
                            math::panel_chunk(row % kPanelRows, lane_id() % 8),
                        words);
  }

  const Ring<kConfig>& ring_;
  const ExpertParams& expert_;
  Units units_;
};

}  // namespace moesaic::backends::cuda
