// SPDX-License-Identifier: Apache-2.0
// The large tiles of the products with an activation behind them: a consumer warp hands over the
// left side as soon as it is multiplied and keeps the right one, rounded, until half of the next
// tile is; by then the left one has most likely been taken (NB-0018). Waiting for it holds nobody
// up for ever: activation warps wait for sides alone, which a warp hands over in an order that does
// not depend on what they do, and it keeps no stage while it waits, but for the last two of a tile.
#pragma once

#include <cstdint>

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/hand_over.cuh"
#include "backends/cuda/block/tile_sides.cuh"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
class HandedTiles : private TileSides<kConfig> {
 public:
  __device__ HandedTiles(const Ring<kConfig>& ring, HandOver<kConfig>& hand_over, int warpgroup)
      : TileSides<kConfig>(ring, warpgroup), hand_over_(hand_over) {}

  /// See LargeTiles::compute.
  template <class ReceiveNext>
  __device__ __forceinline__ void compute(RingState<kConfig>& state, const TileMessage& tile,
                                          const PanelTarget& to, const ReceiveNext& receive_next) {
    while (is_mine(tile, to, TileMessage::large)) {
      if (!is_long(tile)) {
        multiply_all(state, tile.k_blocks, true);
        give<0>(tile);
        give<1>(tile);
        receive_next();
      } else {
        begin_tile(state, [] {});
        multiply_all(state, tile.k_blocks - 2 * kOverlapped, false);
        bool goes_on = true;
        while (goes_on) {
          end_tile(
              state, [&] { give<0>(tile); }, [] {});
          const HandedSide right = side<1>(tile);
          receive_next();
          goes_on = is_mine(tile, to, TileMessage::large) && is_long(tile);
          std::uint32_t words[kWords];
          if (goes_on) {
            begin_tile(state, [&] { round<1>(words); });
            const int stages = tile.k_blocks - 2 * kOverlapped;
            multiply_all(state, stages / 2, false);
            hand_over_.give(words, right);
            multiply_all(state, stages - stages / 2, false);
          } else {
            round<1>(words);
            hand_over_.give(words, right);
          }
        }
      }
    }
    while (is_mine(tile, to, TileMessage::half)) {
      multiply_first(state, tile.k_blocks);
      give<0>(tile);
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
  using Sides::sums_;

  static constexpr int kWords = HandOver<kConfig>::kWords;
  static_assert(kWords == Sides::kSums / 2, "a side fills the panels");

  template <int kSide>
  [[nodiscard]] __device__ static HandedSide side(const TileMessage& tile) {
    return {tile.segment_begin + tile.row, tile.segment_rows - tile.row,
            tile.column + kSide * Sides::kSideColumns};
  }
  template <int kSide>
  __device__ __forceinline__ void round(std::uint32_t (&words)[kWords]) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = ptx::pack_bf16(sums_[kSide][2 * i], sums_[kSide][2 * i + 1]);
    }
  }
  template <int kSide>
  __device__ __forceinline__ void give(const TileMessage& tile) {
    std::uint32_t words[kWords];
    round<kSide>(words);
    hand_over_.give(words, side<kSide>(tile));
  }

  HandOver<kConfig>& hand_over_;
};

}  // namespace moesaic::backends::cuda
