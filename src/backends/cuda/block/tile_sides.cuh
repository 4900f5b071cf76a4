// SPDX-License-Identifier: Apache-2.0
// The two halves of a consumer warpgroup's sums of a large tile, left and right columns, and their
// multiplications.
#pragma once

#include <cstdint>

#include "backends/cuda/block/mainloop.cuh"

namespace moesaic::backends::cuda {

template <KernelConfig kConfig>
class TileSides {
 public:
  static constexpr int kHalf = kConfig.tile_n / 2;

 protected:
  static constexpr int kSums = kHalf / 2;
  static constexpr int kOverlapped = 2;  // stages at either end of a tile
  static_assert(kFewRows >= kConfig.rows_per_warpgroup(), "a large tile has rows for both");

  __device__ TileSides(const Ring<kConfig>& ring, int warpgroup)
      : ring_(ring), warpgroup_(warpgroup) {}

  [[nodiscard]] __device__ static bool is_long(const TileMessage& tile) {
    return tile.k_blocks >= 2 * kOverlapped;
  }

  using Left = LeftOperand<kConfig>;

  [[nodiscard]] __device__ __forceinline__ Left load(int stage) const {
    return Left(ring_, stage, warpgroup_);
  }
  template <int kSide>
  __device__ __forceinline__ void multiply(int stage, const Left& left, bool first) {
    multiply_large<kSide * kHalf, kHalf>(ring_, stage, left, first, sums_[kSide]);
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
  /// All of half a tile, whose columns are left ones.
  __device__ __forceinline__ void multiply_left(RingState<kConfig>& state, int k_blocks) {
    multiply_stages<kConfig>(
        ring_, state, k_blocks, true, [&](int stage) { return load(stage); },
        [&](int stage, const Left& left, bool first) { multiply<0>(stage, left, first); });
  }

  /// A tile's first two stages: `between` runs while the left half of its columns is multiplied.
  template <class Between>
  __device__ __forceinline__ void begin_tile(RingState<kConfig>& state, const Between& between) {
    const RingState<kConfig> second = wait_for_two(state);
    const Left left = load(state.stage), second_left = load(second.stage);
    ptx::wgmma_fence();
    multiply<0>(state.stage, left, true);
    multiply<0>(second.stage, second_left, false);
    ptx::wgmma_commit();
    between();
    ptx::wgmma_fence();
    multiply<1>(state.stage, left, true);
    ptx::wgmma_commit();
    multiply<1>(second.stage, second_left, false);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    release(state);
    ptx::wgmma_wait<0>();
    release(state);
  }

  /// A tile's last two stages, the left half first: three groups, the left half and either stage of
  /// the right, which the caller waits for and then releases. @returns the state of the second.
  __device__ __forceinline__ RingState<kConfig> issue_last_two(const RingState<kConfig>& state) {
    const RingState<kConfig> second = wait_for_two(state);
    const Left left = load(state.stage), second_left = load(second.stage);
    ptx::wgmma_fence();
    multiply<0>(state.stage, left, false);
    multiply<0>(second.stage, second_left, false);
    ptx::wgmma_commit();
    multiply<1>(state.stage, left, false);
    ptx::wgmma_commit();
    multiply<1>(second.stage, second_left, false);
    ptx::wgmma_commit();
    return second;
  }

  /// The state of the second of the next two stages, both of which are full.
  __device__ __forceinline__ RingState<kConfig> wait_for_two(
      const RingState<kConfig>& state) const {
    RingState<kConfig> second = state;
    second.advance();
    wait_for_operands<kConfig>(ring_, state);
    wait_for_operands<kConfig>(ring_, second);
    return second;
  }

  __device__ __forceinline__ void release(RingState<kConfig>& state) const {
    release_stage<kConfig>(ring_, state.stage);
    state.advance();
  }

  const Ring<kConfig>& ring_;
  int warpgroup_;
  float sums_[2][kSums];
};

}  // namespace moesaic::backends::cuda
