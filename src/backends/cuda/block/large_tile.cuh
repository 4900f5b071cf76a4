// SPDX-License-Identifier: Apache-2.0
// A consumer warp's large tiles of forward and dgrad. Storing one takes longer than two stages, so
// it goes on under multiplications: a tile's last two stages are first done for the left half of
// its columns, which is then stored while the right half follows; the right half is stored while
// the next tile's first two stages are done for its left half (NB-0005). Both warpgroups have rows
// in every large tile, since fewer than 65 are a tile of few rows.
#pragma once

#include <cstdint>

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/tile_sides.cuh"

namespace moesaic::backends::cuda {

/// A half of a large tile is stored in two pieces of 64 columns.
template <KernelConfig kConfig>
class PanelStore {
 public:
  __device__ explicit PanelStore(Staging& staging) : staging_(staging) {}

  template <int kPiece, int kSums>
  __device__ __forceinline__ void piece(const float (&sums)[kSums], const PanelTarget& to) {
    constexpr int kPanels = 64 / kConfig.panel_columns();
    store_panels<kConfig, kPiece * kPanels, (kPiece + 1) * kPanels>(staging_, sums, to);
  }

 private:
  Staging& staging_;
};

/// The same for dw[e], whose old values may be added first.
template <KernelConfig kConfig>
class WeightStore {
 public:
  __device__ WeightStore(Staging& staging, const KernelParams& params)
      : store_(staging), params_(params) {}

  template <int kPiece, int kSums>
  __device__ __forceinline__ void piece(float (&sums)[kSums], const PanelTarget& to) {
    if constexpr (!kConfig.f32_out) {
      if (kPiece == 0 && params_.accumulate) add_old_bf16(params_, to, sums);
    }
    store_.template piece<kPiece>(sums, to);
  }

 private:
  PanelStore<kConfig> store_;
  const KernelParams& params_;
};

/// wgrad: whether a warpgroup has lines of dw[e] in a tile.
__device__ __forceinline__ bool has_lines(const TileMessage& tile, const PanelTarget& to,
                                          int warpgroup) {
  return tile.row + warpgroup * 64 < to.row_limit;
}

/// `Store` has piece<0>(sums, to) and piece<1>(sums, to), in this order for each half.
template <KernelConfig kConfig, class Store>
class LargeTiles : private TileSides<kConfig> {
 public:
  __device__ LargeTiles(const Ring<kConfig>& ring, const Store& store, int warpgroup)
      : TileSides<kConfig>(ring, warpgroup), store_(store) {}

  /// Computes `tile`, if it is a large one, and all large tiles that follow, whole and halved.
  /// `receive_next` waits for the next message and puts it and its target into `tile` and `to`.
  template <class ReceiveNext>
  __device__ __forceinline__ void compute(RingState<kConfig>& state, const TileMessage& tile,
                                          const PanelTarget& to, const ReceiveNext& receive_next) {
    while (is_mine(tile, to, TileMessage::large)) {
      if (!is_long(tile)) {
        compute_short(state, tile.k_blocks, to);
        receive_next();
      } else {
        begin_tile(state, [] {});
        bool goes_on = true;
        while (goes_on) {
          multiply_all(state, tile.k_blocks - 2 * kOverlapped, false);
          end(state, to);
          const PanelTarget done = to;
          receive_next();
          goes_on = is_mine(tile, to, TileMessage::large) && is_long(tile);
          if (goes_on) {
            begin_tile(state, [&] { store<1>(done); });
          } else {
            store<1>(done);
          }
        }
      }
    }
    while (is_mine(tile, to, TileMessage::half)) {
      if (kConfig.wgrad && tile.k_blocks == 0) pass_over(state);
      multiply_left(state, tile.k_blocks);
      store<0>(to);
      receive_next();
    }
  }

 private:
  using Sides = TileSides<kConfig>;
  using Sides::begin_tile;
  using Sides::is_long;
  using Sides::issue_last_two;
  using Sides::kOverlapped;
  using Sides::multiply_all;
  using Sides::multiply_left;
  using Sides::release;
  using Sides::sums_;
  using Sides::warpgroup_;

  /// A tile of a kind with rows of this warpgroup.
  [[nodiscard]] __device__ __forceinline__ bool is_mine(const TileMessage& tile,
                                                        const PanelTarget& to,
                                                        TileMessage::Kind kind) const {
    if (tile.kind != kind) return false;
    if constexpr (kConfig.wgrad) return has_lines(tile, to, warpgroup_);
    return true;
  }

  /// A tile too short to overlap with anything.
  __device__ __forceinline__ void compute_short(RingState<kConfig>& state, int k_blocks,
                                                const PanelTarget& to) {
    if (kConfig.wgrad && k_blocks == 0) pass_over(state);
    multiply_all(state, k_blocks, true);
    store<0>(to);
    store<1>(to);
  }

  /// wgrad: an expert without rows; its stage has but the message.
  __device__ __forceinline__ void pass_over(RingState<kConfig>& state) {
#pragma unroll
    for (int i = 0; i < Sides::kSums; ++i) sums_[0][i] = sums_[1][i] = 0.0F;
    release(state);
  }

  /// The last two stages; the right half is still to be stored afterwards.
  __device__ __forceinline__ void end(RingState<kConfig>& state, const PanelTarget& to) {
    issue_last_two(state);
    ptx::wgmma_wait<2>();
    store_piece<0, 0>(to);
    ptx::wgmma_wait<1>();
    release(state);
    store_piece<0, 1>(to);
    ptx::wgmma_wait<0>();
    release(state);
  }

  template <int kSide, int kPiece>
  __device__ __forceinline__ void store_piece(PanelTarget to) {
    to.column += kSide * Sides::kHalf;
    store_.template piece<kPiece>(sums_[kSide], to);
  }
  template <int kSide>
  __device__ __forceinline__ void store(const PanelTarget& to) {
    store_piece<kSide, 0>(to);
    store_piece<kSide, 1>(to);
  }

  Store store_;
};

}  // namespace moesaic::backends::cuda
