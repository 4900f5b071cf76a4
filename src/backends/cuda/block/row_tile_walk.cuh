// SPDX-License-Identifier: Apache-2.0
// A warp's way through the schedule of forward and dgrad: the tiles of math::RowTileCursor, found
// by 32 lanes at once, one expert each.
#pragma once

#include <cstdint>

#include "backends/cuda/block/ring.cuh"
#include "math/expert_segment.hpp"
#include "math/tile_scheduler.hpp"

namespace moesaic::backends::cuda {

/// The rows of this lane's expert that are still to be computed; none past the last expert. All 32
/// lanes call it together: each reads one offset, and has its start from the lane before.
__device__ __forceinline__ math::RowRange segment_of(const KernelParams& params,
                                                     std::int32_t group) {
  const std::int32_t expert = group * kExpertsPerGroup + lane_id();
  const std::int32_t before = lane_id() == 0 ? group * kExpertsPerGroup - 1 : -1;
  const std::int32_t end = expert < params.num_experts ? params.offs[expert] : 0;
  std::int32_t begin = before >= 0 && before < params.num_experts ? params.offs[before] : 0;
  const std::int32_t end_before = __shfl_up_sync(kAllLanes, end, 1);
  if (lane_id() > 0) begin = end_before;
  if (expert >= params.num_experts) return {};
  math::RowRange segment = math::segment_between(begin, end, params.max_rows);
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

/// Groups that a walk passes one after the other; with more it needs the table.
inline constexpr int kWalkedGroups = 4;

__device__ __forceinline__ int num_groups(const KernelParams& params) {
  return math::ceil_div(params.num_experts, kExpertsPerGroup);
}

/// Fills the table where the walk needs one. All threads of the CTA call it, kWarps warps; it
/// synchronizes them.
template <int kWarps>
__device__ __forceinline__ void build_group_table(const KernelParams& params,
                                                  const math::RowTileGrid<std::int32_t>& grid,
                                                  GroupTable& table) {
  const int groups = num_groups(params);
  if (groups > kWalkedGroups) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    for (int group = warp; group < groups; group += kWarps) {
      const math::RowRange segment = segment_of(params, group);
#pragma unroll
      for (int few = 0; few < 2; ++few) {
        const int total = __reduce_add_sync(kAllLanes, grid.tile_rows(segment, few != 0));
        if (lane_id() == 0) table.ends[few][group] = total;
      }
    }
    __syncthreads();
    if (warp < 2) {
      int carry = 0;
      for (int first = 0; first < groups; first += 32) {
        const int group = first + lane_id();
        const int sum = carry + inclusive_sum(group < groups ? table.ends[warp][group] : 0);
        if (group < groups) table.ends[warp][group] = sum;
        carry = __shfl_sync(kAllLanes, sum, 31);
      }
    }
  }
  __syncthreads();
}

/// All 32 lanes call `find` together. What it looks for may lie before what it found last, with
/// experts between only where the kind changes: a few times in the life of a worker, or, spread, up
/// to twice for each round of large tiles.
class RowTileWalk {
 public:
  /// `grid` is params.rows; in a kernel its shape is known to the compiler. `worker_ctas`: of the
  /// launch's, how many are one worker.
  __device__ RowTileWalk(const KernelParams& params, const math::RowTileGrid<std::int32_t>& grid,
                         const GroupTable& table, unsigned worker_ctas = 1)
      : params_(params), grid_(grid), table_(table), groups_(num_groups(params)) {
    load_group(0);
    sequence_ = grid.sequence(count_tile_rows(false), gridDim.x / worker_ctas,
                              grid.shape.spread ? count_tile_rows(true) : 0);
  }

  /// The order of all tiles, which every worker of the launch finds the same.
  [[nodiscard]] __device__ const math::RowTileSequence& sequence() const { return sequence_; }

  /// Tile `index`; not valid() past the last.
  __device__ math::RowTile<std::int32_t> find(std::int64_t index) {
    const math::RowTilePlace at = math::place_of(sequence_, index);
    const std::int64_t columns = grid_.columns_of(at.kind);
    go_back(at.kind == math::RowTileKind::few);
    while (at.tile >= group_end_ * columns) {
      if (group_ + 1 == groups_) return {};
      next_group(at.tile, columns);
    }
    // Lanes whose experts end at or before the index come first; the next lane owns it.
    const unsigned before = __ballot_sync(kAllLanes, at.tile >= last_tile_row_ * columns);
    const int owner = __popc(before);
    math::RowRange segment;
    segment.begin = __shfl_sync(kAllLanes, segment_.begin, owner);
    segment.end = __shfl_sync(kAllLanes, segment_.end, owner);
    const std::int64_t first_tile_row =
        __shfl_sync(kAllLanes, last_tile_row_, owner) - grid_.tile_rows(segment, few_);
    const auto tile =
        math::row_tile_of_expert(grid_, group_ * kExpertsPerGroup + owner, segment, at.kind,
                                 static_cast<std::int32_t>(at.tile - first_tile_row * columns));
    return at.side < 0 ? tile : math::half_of(tile, grid_, at.side);
  }

 private:
  /// Tile rows of either kind, of all experts. Called while the first group is loaded.
  [[nodiscard]] __device__ std::int64_t count_tile_rows(bool few) const {
    if (groups_ == 1 && !few) return group_end_;
    if (groups_ > kWalkedGroups) return table_.ends[few ? 1 : 0][groups_ - 1];
    int rest = few ? grid_.few_tiles(segment_) : 0;
    for (int group = 1; group < groups_; ++group) {
      rest += grid_.tile_rows(segment_of(params_, group), few);
    }
    return (few ? 0 : group_end_) + __reduce_add_sync(kAllLanes, rest);
  }

  /// To the first group, where the tile is of rows that are counted apart.
  __device__ void go_back(bool few) {
    if (few == few_) return;
    few_ = few;
    group_ = 0;
    load_group(0);
  }

  __device__ void next_group(std::int64_t tile, std::int64_t columns) {
    int begin = group_end_;
    ++group_;
    if (groups_ > kWalkedGroups) {
      const std::int32_t* ends = table_.ends[few_ ? 1 : 0];
      while (group_ + 1 < groups_ && tile >= ends[group_] * columns) ++group_;
      begin = ends[group_ - 1];
    }
    load_group(begin);
  }

  __device__ void load_group(int begin) {
    segment_ = segment_of(params_, group_);
    last_tile_row_ = begin + inclusive_sum(grid_.tile_rows(segment_, few_));
    group_end_ = __shfl_sync(kAllLanes, last_tile_row_, 31);
  }

  const KernelParams& params_;
  math::RowTileGrid<std::int32_t> grid_;
  const GroupTable& table_;
  std::int32_t groups_;
  std::int32_t group_ = 0;
  bool few_ = false;
  math::RowTileSequence sequence_{};
  math::RowRange segment_{};        // of this lane's expert
  std::int32_t last_tile_row_ = 0;  // tile rows of all experts up to this lane's
  std::int32_t group_end_ = 0;      // and up to its last
};

}  // namespace moesaic::backends::cuda
