// SPDX-License-Identifier: Apache-2.0
// The two sides of a consumer warpgroup's sums of a large tile, its left and its right columns, and
// their multiplications. Of the tile's 128 rows the warpgroup has 64.
#pragma once

#include <cstdint>

#include "backends/cuda/block/epilogue.cuh"
#include "backends/cuda/block/mainloop.cuh"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
class TileSides {
 public:
  static constexpr int kSideColumns = kConfig.tile_n / 2;

 protected:
  static constexpr int kSums = kSideColumns / 2;
  static constexpr int kOverlapped = 2;  // stages at either end of a tile
  static_assert(kFewRows >= kConfig.rows_per_warpgroup(),
                "a large tile has rows for both warpgroups");

  __device__ TileSides(const Ring<kConfig>& ring, int warpgroup)
      : ring_(ring), warpgroup_(warpgroup) {}

  [[nodiscard]] __device__ static bool is_long(const TileMessage& tile) {
    return tile.k_blocks >= 2 * kOverlapped;
  }
  /// A tile of a kind with rows of this warpgroup.
  [[nodiscard]] __device__ __forceinline__ bool is_mine(const TileMessage& tile,
                                                        const PanelTarget& to,
                                                        TileMessage::Kind kind) const {
    if (tile.kind != kind) return false;
    if constexpr (kConfig.passes_over()) return has_lines(tile, to, warpgroup_);
    return true;
  }

  using Left = LeftOperand<kConfig>;

  [[nodiscard]] __device__ __forceinline__ Left load(int stage) const {
    return Left(ring_, stage, warpgroup_);
  }
  template <int kSide>
  __device__ __forceinline__ void multiply(int stage, const Left& left, bool first) {
    multiply_large<kSide * kSideColumns, kSideColumns>(ring_, stage, left, first, sums_[kSide]);
  }

  __device__ __forceinline__ void multiply_all(RingState<kConfig>& state, int k_blocks,
                                               bool starts) {
    multiply_stages<kConfig>(
        ring_, state, k_blocks, starts, [&](int stage) { return load(stage); },
        [&](int stage, const Left& left, bool first) {
          multiply<0>(stage, left, first);
          multiply<1>(stage, left, first);
        });
  }
  /// All of a tile that has but side 0.
  __device__ __forceinline__ void multiply_first(RingState<kConfig>& state, int k_blocks) {
    multiply_stages<kConfig>(
        ring_, state, k_blocks, true, [&](int stage) { return load(stage); },
        [&](int stage, const Left& left, bool first) { multiply<0>(stage, left, first); });
  }

  /// A tile's first two stages: `between` runs while side 0 is multiplied.
  template <class Between>
  __device__ __forceinline__ void begin_tile(RingState<kConfig>& state, const Between& between) {
    const Two two = issue_two(state, true);
    between();
    ptx::wgmma_fence();
    multiply<1>(state.stage, two.left, true);
    ptx::wgmma_commit();
    multiply<1>(two.second.stage, two.second_left, false);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    release(state);
    ptx::wgmma_wait<0>();
    release(state);
  }
  /// A tile's last two stages, side 0 first: `first` and `second` run when it is multiplied, under
  /// the one stage and the other of side 1, which is still to be dealt with afterwards.
  template <class First, class Second>
  __device__ __forceinline__ void end_tile(RingState<kConfig>& state, const First& first,
                                           const Second& second) {
    const Two two = issue_two(state, false);
    multiply<1>(state.stage, two.left, false);
    ptx::wgmma_commit();
    multiply<1>(two.second.stage, two.second_left, false);
    ptx::wgmma_commit();
    ptx::wgmma_wait<2>();
    first();
    ptx::wgmma_wait<1>();
    release(state);
    second();
    ptx::wgmma_wait<0>();
    release(state);
  }

  __device__ __forceinline__ void release(RingState<kConfig>& state) const {
    release_stage<kConfig>(ring_, state.stage);
    state.advance();
  }

  const Ring<kConfig>& ring_;
  int warpgroup_;
  float sums_[2][kSums];

 private:
  struct Two {
    RingState<kConfig> second;
    Left left, second_left;
  };

  /// Issues side 0 of the next two stages, one group.
  __device__ __forceinline__ Two issue_two(const RingState<kConfig>& state, bool starts) {
    RingState<kConfig> second = state;
    second.advance();
    wait_for_operands<kConfig>(ring_, state);
    wait_for_operands<kConfig>(ring_, second);
    const Left left = load(state.stage), second_left = load(second.stage);
    ptx::wgmma_fence();
    multiply<0>(state.stage, left, starts);
    multiply<0>(second.stage, second_left, false);
    ptx::wgmma_commit();
    return {second, left, second_left};
  }
};

}  // namespace moesaic::backends::cuda
