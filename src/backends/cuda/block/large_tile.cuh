// SPDX-License-Identifier: Apache-2.0
// A consumer warp's large tiles of forward and dgrad. Storing one takes longer than two stages, so
// it goes on under multiplications: a tile's last two stages are first done for the left half of
// its columns, which is then stored while the right half follows; the right half is stored while
// the next tile's first two stages are done for its left half (NB-0005). Both warpgroups have rows
// in every large tile, since fewer than 65 are a tile of few rows.
#pragma once

#include <cstdint>

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/mainloop.cuh"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
class LargeTiles {
 public:
  __device__ LargeTiles(const Ring<kConfig>& ring, Staging& staging, int warpgroup)
      : ring_(ring), staging_(staging), warpgroup_(warpgroup) {}

  /// Computes `tile`, if it is a large one, and all large tiles that follow, whole and halved.
  /// `receive_next` waits for the next message and puts it and its target into `tile` and `to`.
  template <class ReceiveNext>
  __device__ __forceinline__ void compute(RingState<kConfig>& state, const TileMessage& tile,
                                          const PanelTarget& to, const ReceiveNext& receive_next) {
    while (tile.kind == TileMessage::large) {
      if (!is_long(tile)) {
        compute_short(state, tile.k_blocks, to);
        receive_next();
      } else {
        begin<false>(state, to);
        bool goes_on = true;
        while (goes_on) {
          multiply_all(state, tile.k_blocks - 2 * kOverlapped, false);
          end(state, to);
          const PanelTarget done = to;
          receive_next();
          goes_on = tile.kind == TileMessage::large && is_long(tile);
          if (goes_on) {
            begin<true>(state, done);
          } else {
            store<1, 0, kHalf>(done);
          }
        }
      }
    }
    while (tile.kind == TileMessage::half) {
      multiply_stages<kConfig>(ring_, state, tile.k_blocks, true,
                               [&](int stage, bool first) { multiply<0>(stage, first); });
      store<0, 0, kHalf>(to);
      receive_next();
    }
  }

 private:
  static constexpr int kHalf = kConfig.tile_n / 2;
  static constexpr int kSums = kHalf / 2;
  static constexpr int kOverlapped = 2;  // stages at either end of a tile
  static_assert(kFewRows >= kConfig.rows_per_warpgroup(), "a large tile has rows for both");

  [[nodiscard]] __device__ static bool is_long(const TileMessage& tile) {
    return tile.k_blocks >= 2 * kOverlapped;
  }

  /// A tile too short to overlap with anything.
  __device__ __forceinline__ void compute_short(RingState<kConfig>& state, int k_blocks,
                                                const PanelTarget& to) {
    multiply_all(state, k_blocks, true);
    store<0, 0, kHalf>(to);
    store<1, 0, kHalf>(to);
  }

  __device__ __forceinline__ void multiply_all(RingState<kConfig>& state, int k_blocks,
                                               bool starts) {
    multiply_stages<kConfig>(ring_, state, k_blocks, starts, [&](int stage, bool first) {
      multiply<0>(stage, first);
      multiply<1>(stage, first);
    });
  }

  template <int kSide>
  __device__ __forceinline__ void multiply(int stage, bool first) {
    multiply_large<kSide * kHalf, kHalf>(ring_, stage, warpgroup_, first, sums_[kSide]);
  }

  /// The first two stages. kAfterTile: stores the right half of the tile before.
  template <bool kAfterTile>
  __device__ __forceinline__ void begin(RingState<kConfig>& state, const PanelTarget& before) {
    const RingState<kConfig> second = wait_for_two(state);
    ptx::wgmma_fence();
    multiply<0>(state.stage, true);
    multiply<0>(second.stage, false);
    ptx::wgmma_commit();
    if constexpr (kAfterTile) store<1, 0, kHalf>(before);
    ptx::wgmma_fence();
    multiply<1>(state.stage, true);
    ptx::wgmma_commit();
    multiply<1>(second.stage, false);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    release(state);
    ptx::wgmma_wait<0>();
    release(state);
  }

  /// The last two stages; the right half is still to be stored afterwards.
  __device__ __forceinline__ void end(RingState<kConfig>& state, const PanelTarget& to) {
    const RingState<kConfig> second = wait_for_two(state);
    ptx::wgmma_fence();
    multiply<0>(state.stage, false);
    multiply<0>(second.stage, false);
    ptx::wgmma_commit();
    multiply<1>(state.stage, false);
    ptx::wgmma_commit();
    multiply<1>(second.stage, false);
    ptx::wgmma_commit();
    ptx::wgmma_wait<2>();
    store<0, 0, kHalf / 2>(to);
    ptx::wgmma_wait<1>();
    release(state);
    store<0, kHalf / 2, kHalf>(to);
    ptx::wgmma_wait<0>();
    release(state);
  }

  /// The state of the second of the next two stages, both of which are full.
  __device__ __forceinline__ RingState<kConfig> wait_for_two(
      const RingState<kConfig>& state) const {
    RingState<kConfig> second = state;
    second.advance();
    ptx::barrier_wait(ring_.full(state.stage), state.phase);
    ptx::barrier_wait(ring_.full(second.stage), second.phase);
    return second;
  }

  __device__ __forceinline__ void release(RingState<kConfig>& state) const {
    release_stage<kConfig>(ring_, state.stage);
    state.advance();
  }

  /// Stores columns [kFirst, kEnd) of a half of this warp's rows.
  template <int kSide, int kFirst, int kEnd>
  __device__ __forceinline__ void store(PanelTarget to) {
    to.column += kSide * kHalf;
    constexpr int kPanel = kConfig.panel_columns();
    store_panels<kConfig, kFirst / kPanel, kEnd / kPanel>(staging_, sums_[kSide], to);
  }

  const Ring<kConfig>& ring_;
  Staging& staging_;
  int warpgroup_;
  float sums_[2][kSums];
};

}  // namespace moesaic::backends::cuda
