// SPDX-License-Identifier: Apache-2.0
// A warp's way through the static schedule of math/tile_scheduler.hpp: the same tiles as its prefix
// table, found by 32 lanes at once. Shared memory holds tile rows per group of 32 experts; a lane
// holds one expert.
#pragma once

#include <cstdint>

#include "backends/cuda/block/kernel_config.hpp"
#include "math/expert_segment.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % 32); }

/// The rows of `expert` that are still to be computed; none past the last expert.
__device__ __forceinline__ math::RowRange segment_of(const KernelParams& params,
                                                     std::int32_t expert) {
  if (expert >= params.num_experts) return {};
  math::RowRange segment = math::expert_rows(params.offs, expert, params.max_rows);
  segment.begin = math::min(segment.begin + params.done_rows, segment.end);
  return segment;
}

__device__ __forceinline__ int inclusive_sum(int value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, value, step);
    if (lane_id() >= step) value += other;
  }
  return value;
}

/// Fills the table. All threads of the CTA call it; it synchronizes them.
__device__ inline void build_group_table(const KernelParams& params, GroupTable& table) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int num_groups = math::ceil_div(params.num_experts, kExpertsPerGroup);
  if (threadIdx.x == 0) table.last_segment_end = 0;
  __syncthreads();
  int last_end = 0;
  for (int group = warp; group < num_groups; group += kThreads / 32) {
    const math::RowRange segment = segment_of(params, group * kExpertsPerGroup + lane_id());
    const int total = __reduce_add_sync(kAllLanes, params.rows.m_tiles(segment));
    last_end = max(last_end, __reduce_max_sync(kAllLanes, static_cast<int>(segment.end)));
    if (lane_id() == 0) table.groups[group + 1] = total;
  }
  if (lane_id() == 0 && last_end > 0) atomicMax(&table.last_segment_end, last_end);
  __syncthreads();
  if (warp == 0) {
    int carry = 0;
    for (int first = 0; first < num_groups; first += 32) {
      const int group = first + lane_id();
      const int sum = carry + inclusive_sum(group < num_groups ? table.groups[group + 1] : 0);
      if (group < num_groups) table.groups[group + 1] = sum;
      carry = __shfl_sync(kAllLanes, sum, 31);
    }
    if (lane_id() == 0) table.groups[0] = 0;
  }
  __syncthreads();
}

/// Forward and dgrad. All 32 lanes call `find` together, with indices that never decrease.
class RowTileWalk {
 public:
  __device__ RowTileWalk(const KernelParams& params, const GroupTable& table)
      : params_(params),
        groups_(table.groups),
        num_groups_(math::ceil_div(params.num_experts, kExpertsPerGroup)) {
    load_group();
  }

  /// Tile `index`; not valid() past the last.
  __device__ math::RowTile<std::int32_t> find(std::int64_t index) {
    const std::int64_t n_tiles = params_.rows.n_tiles;
    while (group_ < num_groups_ && index >= groups_[group_ + 1] * n_tiles) {
      ++group_;
      load_group();
    }
    if (group_ >= num_groups_) return {};
    // Lanes whose experts end at or before the index come first; the next lane owns it.
    const unsigned before = __ballot_sync(kAllLanes, index >= last_tile_row_ * n_tiles);
    const int owner = __popc(before);
    math::RowRange segment;
    segment.begin = __shfl_sync(kAllLanes, segment_.begin, owner);
    segment.end = __shfl_sync(kAllLanes, segment_.end, owner);
    const int owner_end = __shfl_sync(kAllLanes, last_tile_row_, owner);
    const int first_tile_row = owner_end - params_.rows.m_tiles(segment);
    return math::row_tile_of_expert(params_.rows, group_ * kExpertsPerGroup + owner, segment,
                                    static_cast<std::int32_t>(index - first_tile_row * n_tiles));
  }

 private:
  __device__ void load_group() {
    if (group_ >= num_groups_) return;
    segment_ = segment_of(params_, group_ * kExpertsPerGroup + lane_id());
    last_tile_row_ = groups_[group_] + inclusive_sum(params_.rows.m_tiles(segment_));
  }

  const KernelParams& params_;
  const std::int32_t* groups_;
  std::int32_t num_groups_;
  std::int32_t group_ = 0;
  math::RowRange segment_{};        // of this lane's expert
  std::int32_t last_tile_row_ = 0;  // tile rows of all experts up to this lane's
};

/// Records the fault of the lowest bad expert. One CTA calls it with all its threads.
__device__ inline void record_faults(const KernelParams& params) {
  std::uint64_t word = 0;
  for (std::int32_t expert = static_cast<std::int32_t>(threadIdx.x); expert < params.num_experts;
       expert += kThreads) {
    word = math::combine_faults(
        word, math::encode_fault(math::expert_fault(params.offs, expert, params.max_rows)));
  }
  if (word != 0) atomicMax(params.fault_word, static_cast<unsigned long long>(word));
}

}  // namespace moesaic::backends::cuda
