// SPDX-License-Identifier: Apache-2.0
// The large tiles of the dH product with the backward activation in their epilogue. Behind a tile's
// contraction the ring brings U: a stage for 64 columns of dH, both parts of U where b was, room
// for H where a was. dU replaces U there and is stored from there, so that the epilogue needs no
// memory of its own. The first of four such stages is worked on while the right half of the last
// two multiplications goes on, the last while the next tile begins.
#pragma once

#include <cstdint>

#include "backends/cuda/block/activation.cuh"
#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/tile_sides.cuh"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
class DswigluTiles : private TileSides<kConfig> {
 public:
  __device__ DswigluTiles(const Ring<kConfig>& ring, const ExpertMaps& maps,
                          const KernelParams& params, int warp)
      : TileSides<kConfig>(ring, warp / 4),
        maps_(maps),
        expert_(params.expert),
        first_line_(static_cast<std::uint32_t>(warp * kPanelBytes)) {}

  /// See LargeTiles::compute.
  template <class ReceiveNext>
  __device__ __forceinline__ void compute(RingState<kConfig>& state, const TileMessage& tile,
                                          const PanelTarget& to, const ReceiveNext& receive_next) {
    while (is_mine(tile, to, TileMessage::large)) {
      if (!is_long(tile)) {
        multiply_all(state, tile.k_blocks, true);
        activate_side<0>(state, to);
        activate_side<1>(state, to);
        receive_next();
      } else {
        begin_tile(state, [] {});
        bool goes_on = true;
        while (goes_on) {
          multiply_all(state, tile.k_blocks - 2 * kOverlapped, false);
          end(state, to);
          const PanelTarget done = to;
          RingState<kConfig> saved = state;  // of the first of the right half's two stages
          state.advance();
          state.advance();
          receive_next();
          goes_on = is_mine(tile, to, TileMessage::large) && is_long(tile);
          const auto last_block = [&] {
            RingState<kConfig> last = saved;
            last.advance();
            activate<1, 1>(last, done, [&] { release_read(saved); });
          };
          if (goes_on) {
            begin_tile(state, last_block, [&] { release_read(saved); });
          } else {
            last_block();
            release_read(saved);
          }
        }
      }
    }
    while (is_mine(tile, to, TileMessage::half)) {
      multiply_first(state, tile.k_blocks);
      activate_side<0>(state, to);
      receive_next();
    }
  }

 private:
  static_assert(kConfig.stages >= 4, "the next tile's first two come beside two of U");

  using Sides = TileSides<kConfig>;
  using Sides::begin_tile;
  using Sides::is_long;
  using Sides::is_mine;
  using Sides::issue_last_two;
  using Sides::kOverlapped;
  using Sides::multiply_all;
  using Sides::multiply_first;
  using Sides::release;
  using Sides::ring_;
  using Sides::sums_;

  /// The last two stages of the contraction, and three of U; leaves `state` at the third, which is
  /// still to be released. A stage of U goes back halfway through the next: by then the copies have
  /// read it, and the next tile's first stages come while the right half's first block is worked
  /// on.
  __device__ __forceinline__ void end(RingState<kConfig>& state, const PanelTarget& to) {
    RingState<kConfig> block = issue_last_two(state);
    block.advance();
    ptx::wgmma_wait<2>();
    activate<0, 0>(block, to, [] {});
    ptx::wgmma_wait<0>();
    release(state);
    release(state);
    const auto release_before = [&] { release_read(state); };
    block.advance();
    activate<0, 1>(block, to, release_before);
    block.advance();
    activate<1, 0>(block, to, release_before);
  }

  /// Both stages of a half, from `at` on; leaves `at` behind them.
  template <int kSide>
  __device__ __forceinline__ void activate_side(RingState<kConfig>& at, const PanelTarget& to) {
    RingState<kConfig> second = at;
    second.advance();
    activate<kSide, 0>(at, to, [] {});
    activate<kSide, 1>(second, to, [&] { release_read(at); });
    release_read(at);
  }

  /// Gives a stage back once all copies that were issued have read.
  __device__ __forceinline__ void release_read(RingState<kConfig>& at) const {
    if (lane_id() == 0) ptx::store_wait_read<0>();
    // Of a pair's, another lane releases the stage for the other CTA.
    if constexpr (kConfig.pair) __syncwarp();
    release(at);
  }

  /// 64 columns of dH: dU in the place of U, H beside it, and the copies of both on their way. The
  /// stage may go back when these have read it. `halfway` is called once, between two quarters.
  template <int kSide, int kBlock, class Halfway>
  __device__ __forceinline__ void activate(const RingState<kConfig>& at, const PanelTarget& to,
                                           const Halfway& halfway) {
    ptx::barrier_wait(ring_.full(at.stage), at.phase);
    const int column = to.column + kSide * Sides::kSideColumns + kBlock * 64;
    // A branch around it all keeps the activation behind the wgmmas that are issued before it.
    if (to.row < to.row_limit && column < to.column_limit) {
      const std::uint32_t h_panel = ring_.a(at.stage) + first_line_;
      const std::uint32_t panel0 = ring_.b(at.stage) + first_line_;
      const std::uint32_t panel1 = panel0 + math::panel_bytes(kConfig.tile_m);
      // Interleaved, a panel has both parts, and up is first: see part_layout().
      const bool interleaved = expert_.layout.interleaved;
      const std::uint32_t up_panel = expert_.layout.gate_first ? panel1 : panel0;
      const std::uint32_t gate_panel = expert_.layout.gate_first ? panel0 : panel1;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        std::uint32_t up[kQuarterWords], gate[kQuarterWords], h[kQuarterWords];
        load_quarter(up_panel, gate_panel, q, up, gate, interleaved);
#pragma unroll
        for (int i = 0; i < kQuarterWords; ++i) {
          const int at_sum = 2 * ((kBlock * 4 + q) * kQuarterWords + i);
          const std::uint32_t dh = ptx::pack_bf16(sums_[kSide][at_sum], sums_[kSide][at_sum + 1]);
          const DswigluWords words = dswiglu_words(up[i], gate[i], dh);
          up[i] = words.dup;
          gate[i] = words.dgate;
          h[i] = words.h;
        }
        __syncwarp();  // other lanes have read what this one overwrites
        store_quarter(up_panel, gate_panel, q, up, gate, interleaved);
        if (expert_.h_out != nullptr) store_matrices(h_panel, q, h);
        if (q == 1) halfway();
      }
      ptx::fence_async_proxy();  // for the copies below
      __syncwarp();
      if (lane_id() == 0) {
        issue_part(maps_.u, panel0, to, expert_.layout, column, 0);
        issue_part(maps_.u, panel1, to, expert_.layout, column, 1);
        if (expert_.h_out != nullptr) issue_panel(to, h_panel, to.row, column);
        ptx::store_commit();
      }
    } else {
      halfway();
    }
    __syncwarp();
  }

  const ExpertMaps& maps_;
  const ExpertParams& expert_;
  std::uint32_t first_line_;  // of this warp's rows in a stage's panels
};

}  // namespace moesaic::backends::cuda
