// SPDX-License-Identifier: Apache-2.0
// The forward activation at the end of a tile whose columns come in blocks, 64 of the first part of
// U and 64 of the second: a lane has both parts of its columns of H. U is rounded before the
// activation, so that H has the bits that a product and an activation apart would make.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/block/epilogue.cuh"

namespace moesaic::backends::cuda {

/// Takes a half of a large tile in two pieces, as PanelStore does.
template <KernelConfig kConfig>
class SwigluStore {
 public:
  __device__ SwigluStore(Staging& staging, const ExpertMaps& maps, const KernelParams& params)
      : staging_(staging), maps_(maps), expert_(params.expert) {}

  /// Piece 0 stores U if it is kept, piece 1 H: of 64 columns of H.
  template <int kPiece>
  __device__ __forceinline__ void piece(const float (&sums)[4 * kPanelWords],
                                        const PanelTarget& to) {
    // A branch around it all keeps the activation behind the wgmmas that are issued before it.
    if (to.row >= to.row_limit || to.column >= to.column_limit) return;
    std::uint32_t first[kPanelWords], second[kPanelWords];
#pragma unroll
    for (int i = 0; i < kPanelWords; ++i) {
      first[i] = ptx::pack_bf16(sums[2 * i], sums[2 * i + 1]);
      second[i] = ptx::pack_bf16(sums[2 * (kPanelWords + i)], sums[2 * (kPanelWords + i) + 1]);
    }
    if constexpr (kPiece == 0) {
      if (expert_.u == nullptr) return;
      store_u<0>(first, second, to);
      store_u<1>(first, second, to);
    } else {
#pragma unroll
      for (int i = 0; i < kPanelWords; ++i) {
        first[i] = swiglu_pair(first[i], second[i], expert_.layout.gate_first);
      }
      store_h(first, to);
    }
  }

 private:
  template <int kPanel>
  __device__ __forceinline__ void store_u(const std::uint32_t (&first)[kPanelWords],
                                          const std::uint32_t (&second)[kPanelWords],
                                          const PanelTarget& to) {
    const bool issuer = lane_id() == 0;
    const std::uint32_t panel = staging_.next(issuer);
    if (!expert_.layout.interleaved) {
      store_fragment(panel, kPanel == 0 ? first : second);
    } else {
#pragma unroll
      for (int block = 0; block < 4; ++block) {
        constexpr int kFirst = kPanel * kPanelWords / 2;
        std::uint32_t words[4];
        interleave_block(first + kFirst + 2 * block, second + kFirst + 2 * block, words);
        store_block(panel, block, words);
      }
    }
    ptx::fence_async_proxy();  // for the copy below
    __syncwarp();
    if (issuer) {
      issue_part(maps_.u, panel, to, expert_.layout, to.column / 2, kPanel);
      ptx::store_commit();
    }
  }

  __device__ __forceinline__ void store_h(const std::uint32_t (&h)[kPanelWords],
                                          const PanelTarget& to) {
    const bool issuer = lane_id() == 0;
    const std::uint32_t panel = staging_.next(issuer);
    store_fragment(panel, h);
    ptx::fence_async_proxy();
    __syncwarp();
    if (issuer) {
      issue_panel(to, panel, to.row, to.column / 2);
      ptx::store_commit();
    }
  }

  Staging& staging_;
  const ExpertMaps& maps_;
  const ExpertParams& expert_;
};

}  // namespace moesaic::backends::cuda
