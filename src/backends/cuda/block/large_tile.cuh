// SPDX-License-Identifier: Apache-2.0
// A consumer warp's large tiles. Storing one takes longer than two stages, so it goes on under
// multiplications: a tile's last two stages are first done for side 0, which is then stored while
// side 1 follows; side 1 is stored while the next tile's first two stages are done for its side 0
// (NB-0005). Sides: see tile_sides.cuh.
#pragma once

#include <cstdint>

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/tile_sides.cuh"

namespace moesaic::backends::cuda {

/// A side is stored in pieces of 64 columns.
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

/// `Store` has piece<0>(sums, to), piece<1>(sums, to) and so on, called in this order for each
/// side.
template <KernelConfig kConfig, class Store>
class LargeTiles : private TileSides<kConfig> {
 public:
  __device__ LargeTiles(const Ring<kConfig>& ring, const Store& store, int warpgroup)
      : TileSides<kConfig>(ring, warpgroup), store_(store) {}

  /// Computes `tile`, if it is a whole one, and all that follow. `receive_next` waits for the next
  /// message and puts it and its target into `tile` and `to`.
  template <class ReceiveNext>
  __device__ __forceinline__ void compute(RingState<kConfig>& state, const TileMessage& tile,
                                          const PanelTarget& to, const ReceiveNext& receive_next) {
    while (is_mine(tile, to, TileMessage::large)) {
      if (!is_long(tile)) {
        compute_alone(state, tile, to);
        receive_next();
      } else {
        begin_tile(state, [] {});
        bool goes_on = true;
        while (goes_on) {
          multiply_all(state, tile.k_blocks - 2 * kOverlapped, false);
          end_tile(
              state, [&] { store_pieces<0, 0, kPieces / 2>(to); },
              [&] { store_pieces<0, kPieces / 2, kPieces>(to); });
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
  }

  /// The same for halves, which have side 0 alone.
  template <class ReceiveNext>
  __device__ __forceinline__ void compute_halves(RingState<kConfig>& state, const TileMessage& tile,
                                                 const PanelTarget& to,
                                                 const ReceiveNext& receive_next) {
    while (is_mine(tile, to, TileMessage::half)) {
      if (kConfig.wgrad && tile.k_blocks == 0) pass_over(state);
      multiply_first(state, tile.k_blocks);
      store<0>(to);
      receive_next();
    }
  }

 private:
  using Sides = TileSides<kConfig>;
  using Sides::begin_tile;
  using Sides::end_tile;
  using Sides::is_long;
  using Sides::is_mine;
  using Sides::kOverlapped;
  using Sides::multiply_all;
  using Sides::multiply_first;
  using Sides::release;
  using Sides::ring_;
  using Sides::sums_;

  static constexpr int kPieces = Sides::kSideColumns / 64;

  /// A tile too short to overlap with anything.
  __device__ __forceinline__ void compute_alone(RingState<kConfig>& state, const TileMessage& tile,
                                                const PanelTarget& to) {
    if (kConfig.wgrad && tile.k_blocks == 0) pass_over(state);
    multiply_all(state, tile.k_blocks, true);
    store<0>(to);
    store<1>(to);
  }

  /// wgrad: an expert without rows; its stage has but the message.
  __device__ __forceinline__ void pass_over(RingState<kConfig>& state) {
#pragma unroll
    for (int i = 0; i < Sides::kSums; ++i) sums_[0][i] = sums_[1][i] = 0.0F;
    release(state);
  }

  template <int kSide, int kPiece>
  __device__ __forceinline__ void store_piece(PanelTarget to) {
    to.column += kSide * Sides::kSideColumns;
    store_.template piece<kPiece>(sums_[kSide], to);
  }
  /// Pieces [kPiece, kEnd).
  template <int kSide, int kPiece, int kEnd>
  __device__ __forceinline__ void store_pieces(const PanelTarget& to) {
    store_piece<kSide, kPiece>(to);
    if constexpr (kPiece + 1 < kEnd) store_pieces<kSide, kPiece + 1, kEnd>(to);
  }
  template <int kSide>
  __device__ __forceinline__ void store(const PanelTarget& to) {
    store_pieces<kSide, 0, kPieces>(to);
  }

  Store store_;
};

}  // namespace moesaic::backends::cuda
