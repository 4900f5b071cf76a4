// SPDX-License-Identifier: Apache-2.0
// A warp's way through the schedule of wgrad: the tiles of math::WeightTileCursor, found by 32
// lanes at once, one expert each. Experts whose dw stays as it is have no tiles here.
#pragma once

#include <cstdint>

#include "backends/cuda/block/row_tile_walk.cuh"
#include "math/weight_pair.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda {

/// All 32 lanes call `find` together, with indices that never decrease.
template <KernelConfig kConfig>
class WeightTileWalk {
 public:
  __device__ explicit WeightTileWalk(const KernelParams& params)
      : params_(params), groups_(num_groups(params)) {
    for (group_ = 0; group_ < groups_; ++group_) {
      const std::int32_t length = load_group();
      const bool exists = class_of_lane_ >= 0;
      shortest_ = exists ? math::min(shortest_, length) : shortest_;
      longest_ = exists ? math::max(longest_, length) : longest_;
      const unsigned mine = exists ? 1U << class_of_lane_ : 0U;
      classes_ |= __reduce_or_sync(kAllLanes, mine);
      experts_ += __popc(__ballot_sync(kAllLanes, exists));
    }
    shortest_ = __reduce_min_sync(kAllLanes, shortest_);
    longest_ = __reduce_max_sync(kAllLanes, longest_);
    next_class();
  }

  /// All tiles are about equally long: an eighth more at most.
  [[nodiscard]] __device__ bool same_length() const {
    return math::about_equally_long(shortest_, longest_);
  }

  /// The tiles of a worker: of a pair where two CTAs are one.
  [[nodiscard]] __device__ decltype(auto) grid() const {
    if constexpr (kConfig.pair) {
      return same_length() ? math::pair_weight_grid(params_.weights) : params_.weights;
    } else {
      return (params_.weights);
    }
  }

  /// Stages of the shortest.
  [[nodiscard]] __device__ std::int32_t shortest() const { return shortest_; }

  /// All tiles, none halved.
  [[nodiscard]] __device__ std::int64_t count() const {
    return static_cast<std::int64_t>(experts_) * grid().tiles_per_expert();
  }

  /// Tile `index`; not valid() past the last.
  __device__ math::WeightTile<std::int32_t> find(std::int64_t index) {
    const std::int32_t tiles = grid().tiles_per_expert();
    while (true) {
      if (class_ < 0) return {};
      const std::int64_t in_group = static_cast<std::int64_t>(__popc(members_)) * tiles;
      if (index < first_index_ + in_group) break;
      first_index_ += in_group;
      if (group_ + 1 < groups_) {
        ++group_;
        load_group();
        members_ = __ballot_sync(kAllLanes, class_of_lane_ == class_);
      } else {
        next_class();
      }
    }
    const auto local = static_cast<std::int32_t>(index - first_index_);
    const std::int32_t nth = local / tiles;
    const bool owns =
        (members_ >> lane_id() & 1U) != 0 && __popc(members_ & ((1U << lane_id()) - 1U)) == nth;
    const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, owns))) - 1;
    return math::weight_tile_of_expert(params_.offs, grid(), group_ * kExpertsPerGroup + owner,
                                       local - nth * tiles);
  }

 private:
  /// The highest class that is left, from its first group on.
  __device__ void next_class() {
    class_ = 31 - __clz(static_cast<int>(classes_));
    if (class_ < 0) return;
    classes_ &= ~(1U << class_);
    if (groups_ > 1 || group_ != 0) {
      group_ = 0;
      load_group();
    }
    members_ = __ballot_sync(kAllLanes, class_of_lane_ == class_);
  }

  /// Finds the class of this lane's expert, −1 for none; returns the blocks of rows it contracts.
  __device__ std::int32_t load_group() {
    const std::int32_t expert = group_ * kExpertsPerGroup + lane_id();
    class_of_lane_ = -1;
    if (expert >= params_.num_experts) return 0;
    const auto rows =
        static_cast<std::int32_t>(math::expert_rows(params_.offs, expert, params_.max_rows).rows());
    const bool unchanged = params_.accumulate && rows == 0;
    const bool done = params_.done_rows > 0 && rows <= params_.done_rows;
    const std::int32_t length = math::ceil_div(rows, params_.weights.block_rows);
    if (!unchanged && !done) class_of_lane_ = math::weight_tile_class(length);
    return length;
  }

  const KernelParams& params_;
  std::int32_t groups_;
  std::int32_t group_ = 0;
  std::int32_t experts_ = 0;  // that have tiles
  unsigned classes_ = 0;      // that are left
  std::int32_t shortest_ = math::kMaxOf<std::int32_t>, longest_ = 0;
  int class_ = -1;  // of the tiles now
  int class_of_lane_ = -1;
  unsigned members_ = 0;          // lanes whose experts are of the class
  std::int64_t first_index_ = 0;  // of the first member
};

}  // namespace moesaic::backends::cuda
