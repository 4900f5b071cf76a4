// SPDX-License-Identifier: Apache-2.0
// The ring of stages that the producer fills and the consumers empty, and the word that goes with a
// tile: a message in shared memory beside the tile's first stage, ordered by that stage's barriers.
#pragma once

#include <cstdint>

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/ptx/cluster.cuh"
#include "backends/cuda/ptx/shared_memory.cuh"
#include "backends/cuda/ptx/sync.cuh"

namespace moesaic::backends::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % 32); }

/// Where the CTAs of a pair may work apart: whether they do not, so that each fills the other's
/// ring too. Consumers hear it with their first tile.
template <bool kMayPart>
struct RingOfPair {};
template <>
struct RingOfPair<true> {
  bool together = true;
};

/// Shared-memory addresses of a CTA.
template <KernelConfig kConfig>
struct Ring : RingOfPair<kConfig.may_part()> {
  std::uint32_t base;

  [[nodiscard]] __device__ std::uint32_t a(int stage) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base +
           static_cast<std::uint32_t>(stage) * static_cast<std::uint32_t>(kMap.a_stage_bytes);
  }
  [[nodiscard]] __device__ std::uint32_t b(int stage) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base + static_cast<std::uint32_t>(kMap.b_begin) +
           static_cast<std::uint32_t>(stage) * static_cast<std::uint32_t>(kMap.b_stage_bytes);
  }
  /// Panel 0 or 1 along the contraction of a stage of few rows.
  [[nodiscard]] __device__ std::uint32_t few_a(int stage, int panel) const {
    return a(stage) + static_cast<std::uint32_t>(panel * kFewABytes);
  }
  [[nodiscard]] __device__ std::uint32_t few_b(int stage, int panel) const {
    return b(stage) + static_cast<std::uint32_t>(panel * kFewBBytes);
  }
  [[nodiscard]] __device__ std::uint32_t full(int stage) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base + static_cast<std::uint32_t>(kMap.barriers_begin) +
           static_cast<std::uint32_t>(stage) * 8U;
  }
  [[nodiscard]] __device__ std::uint32_t empty(int stage) const {
    return full(kConfig.stages + stage);
  }
  [[nodiscard]] __device__ std::uint32_t message(int stage) const {
    return base + static_cast<std::uint32_t>(kConfig.messages_begin()) +
           static_cast<std::uint32_t>(stage) * static_cast<std::uint32_t>(sizeof(TileMessage));
  }
  [[nodiscard]] __device__ std::uint32_t gather_tile(int slot) const {
    return base + static_cast<std::uint32_t>(kConfig.gather_begin()) +
           static_cast<std::uint32_t>(slot) * static_cast<std::uint32_t>(sizeof(GatherTile));
  }
  /// Barriers of a slot of gather_tile(): told by one warp, and heard by the three others.
  [[nodiscard]] __device__ std::uint32_t gather_full(int slot) const {
    return gather_tile(kGatherSlots) + static_cast<std::uint32_t>(slot) * 8U;
  }
  [[nodiscard]] __device__ std::uint32_t gather_empty(int slot) const {
    return gather_full(kGatherSlots + slot);
  }
  /// Where CTA 0 of a pair tells the other what the queue answered.
  [[nodiscard]] __device__ std::uint32_t pair_slots() const {
    return base + static_cast<std::uint32_t>(kConfig.gather_begin());
  }
  /// hands_over(): what is left, and barriers of either warpgroup: its rows are there, and have
  /// been taken.
  [[nodiscard]] __device__ std::uint32_t handed_side() const {
    return base + static_cast<std::uint32_t>(kConfig.hand_over_begin());
  }
  [[nodiscard]] __device__ std::uint32_t handed(int warpgroup) const {
    return handed_side() + static_cast<std::uint32_t>(kHandedSideBytes) +
           static_cast<std::uint32_t>(warpgroup) * 8U;
  }
  [[nodiscard]] __device__ std::uint32_t taken(int warpgroup) const {
    return handed(kConsumerWarpgroups + warpgroup);
  }
  /// The staged panels of a consumer warp, 0 to 7.
  [[nodiscard]] __device__ std::uint32_t staging(int warp) const {
    constexpr math::SmemMap kMap = kConfig.smem();
    return base + static_cast<std::uint32_t>(kMap.staging_begin) +
           static_cast<std::uint32_t>(warp * kStagingPanels * kPanelBytes);
  }
};

/// Written by the lane that then arrives at the stage's full barrier.
__device__ __forceinline__ void send(std::uint32_t to, const TileMessage& message) {
  ptx::store_shared_v4(to, message.kind, message.k_blocks, message.row, message.column);
  ptx::store_shared_v4(to + 16, message.segment_begin, message.segment_rows, message.expert,
                       message.unused);
}

/// What lane 0 has, for all 32 lanes.
__device__ __forceinline__ int from_lane_0(int value) { return __shfl_sync(kAllLanes, value, 0); }

/// Read after waiting for the stage's full barrier, before the stage is released. All 32 lanes.
/// Lane 0 reads, since it is the one that releases the stage: its own order is enough.
__device__ __forceinline__ TileMessage receive(std::uint32_t from) {
  int4 low{}, high{};
  if (lane_id() == 0) {
    low = ptx::load_shared_v4(from);
    high = ptx::load_shared_v4(from + 16);
  }
  return {static_cast<TileMessage::Kind>(from_lane_0(low.x)),
          from_lane_0(low.y),
          from_lane_0(low.z),
          from_lane_0(low.w),
          from_lane_0(high.x),
          from_lane_0(high.y),
          from_lane_0(high.z),
          0};
}

/// One warp's arrival frees its share of a stage; the producer waits for all eight consumer warps.
/// Where two CTAs fill it, for those of both: lane 0 arrives here and lane 1 there. A pair that
/// works apart counts as many arrivals: both are here.
template <KernelConfig kConfig>
__device__ __forceinline__ void release_stage(const Ring<kConfig>& ring, int stage) {
  if constexpr (kConfig.pair) {
    const auto lane = static_cast<std::uint32_t>(lane_id());
    if constexpr (kConfig.may_part()) {
      const std::uint32_t there = ring.together ? lane : 0;
      if (lane < 2) ptx::barrier_arrive_in(ring.empty(stage), ptx::cluster_rank() ^ there);
    } else {
      if (lane < 2) ptx::barrier_arrive_in(ring.empty(stage), ptx::cluster_rank() ^ lane);
    }
  } else {
    if (lane_id() == 0) ptx::barrier_arrive(ring.empty(stage));
  }
}

}  // namespace moesaic::backends::cuda
