// SPDX-License-Identifier: Apache-2.0
// L0: token → (rank, row) in expert parallelism. Rows of a destination rank lie local-expert-major,
// then by source rank, then by route; they are dense from row 0 and end at the capacity, behind
// which routes are dropped. Maps, ids and counts are anything with operator[].
//
// Two forms with the same result. place_routes() is the definition: one route after the other. The
// parallel form counts blocks of routes, scans the counts, and places chunks of up to 32 routes
// side by side; its pieces are below in the order in which they are used.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"
#include "math/padding.hpp"

namespace moesaic::math {

/// Rank r has the experts [r · local_experts, (r + 1) · local_experts).
struct ExpertPlacement {
  std::int32_t num_ranks = 1;
  std::int32_t local_experts = 1;

  [[nodiscard]] MOESAIC_HD constexpr std::int32_t num_experts() const {
    return num_ranks * local_experts;
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int32_t rank_of(std::int32_t expert) const {
    return expert / local_experts;
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int32_t first_expert(std::int32_t rank) const {
    return rank * local_experts;
  }
  bool operator==(const ExpertPlacement&) const = default;
};

/// Rows of every rank's buffer: ⌈c · T · topk⌉ for T tokens on each rank, c in millionths.
MOESAIC_HD constexpr std::int64_t rank_capacity(std::int64_t factor_millionths, std::int64_t tokens,
                                                std::int64_t topk) {
  return ceil_mean_capacity(factor_millionths, saturating_mul(tokens, topk), 1);
}

/// The expert of an id, −1 where the id is no route: negative, or no expert at all.
template <std::signed_integral Id>
MOESAIC_HD constexpr std::int32_t routed_expert(Id id, std::int32_t num_experts) {
  return 0 <= id && id < num_experts ? static_cast<std::int32_t>(id) : -1;
}

/// Where a route goes; −1 in both where it goes nowhere.
struct RouteTarget {
  std::int32_t rank = -1;
  std::int32_t row = -1;

  [[nodiscard]] MOESAIC_HD constexpr bool kept() const { return row >= 0; }
  bool operator==(const RouteTarget&) const = default;
};

/// Tail drop: `row` counts all rows that were asked for, and the buffer ends at `capacity` ≤ 2³¹
/// − 1.
MOESAIC_HD constexpr RouteTarget route_target(const ExpertPlacement& placement, std::int32_t expert,
                                              std::int64_t row, std::int64_t capacity) {
  if (row >= capacity) return {};
  return {placement.rank_of(expert), static_cast<std::int32_t>(row)};
}

// ---- Counts of all ranks: counts[source · E + expert]

MOESAIC_HD constexpr std::int64_t count_index(const ExpertPlacement& placement, std::int32_t source,
                                              std::int32_t expert) {
  return static_cast<std::int64_t>(source) * placement.num_experts() + expert;
}

/// Cells of a destination rank in the order of its rows: cell = local expert · R + source.
MOESAIC_HD constexpr std::int64_t num_cells(const ExpertPlacement& placement) {
  return static_cast<std::int64_t>(placement.local_experts) * placement.num_ranks;
}

/// Where the counts hold a cell of `rank`.
MOESAIC_HD constexpr std::int64_t cell_index(const ExpertPlacement& placement, std::int32_t rank,
                                             std::int64_t cell) {
  const auto local = static_cast<std::int32_t>(cell / placement.num_ranks);
  const auto source = static_cast<std::int32_t>(cell % placement.num_ranks);
  return count_index(placement, source, placement.first_expert(rank) + local);
}

/// first_rows[count_index] = the row at which a cell of `rank` begins, had the buffer no end: the
/// exclusive sum over the cells before it.
template <class Counts, class Rows>
MOESAIC_HD constexpr void scan_cells(const Counts& counts, const ExpertPlacement& placement,
                                     std::int32_t rank, Rows&& first_rows) {
  std::int64_t row = 0;
  for (std::int64_t cell = 0; cell < num_cells(placement); ++cell) {
    const std::int64_t index = cell_index(placement, rank, cell);
    first_rows[index] = row;
    row += counts[index];
  }
}

/// Rows of an expert's segment that its rank keeps, as int32 end row: the expert's entry of `offs`.
template <class Counts, class Rows>
MOESAIC_HD constexpr std::int32_t kept_end(const Counts& counts, const Rows& first_rows,
                                           const ExpertPlacement& placement, std::int32_t expert,
                                           std::int64_t capacity) {
  const std::int64_t last = count_index(placement, placement.num_ranks - 1, expert);
  return static_cast<std::int32_t>(min<std::int64_t>(first_rows[last] + counts[last], capacity));
}

/// Rows that an expert keeps.
template <class Rows>
MOESAIC_HD constexpr std::int32_t kept_rows(const Rows& first_rows,
                                            const ExpertPlacement& placement, std::int32_t expert,
                                            std::int32_t end, std::int64_t capacity) {
  const std::int64_t begin = first_rows[count_index(placement, 0, expert)];
  return end - static_cast<std::int32_t>(min<std::int64_t>(begin, capacity));
}

// ---- Routes of one source rank

/// Routes [begin, end).
struct RouteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const RouteRange&) const = default;
};

/// Adds the routes of a range to counts[expert].
template <class Ids, class Counts>
MOESAIC_HD constexpr void count_routes(const Ids& ids, RouteRange routes, std::int32_t num_experts,
                                       Counts&& counts) {
  for (std::int64_t route = routes.begin; route < routes.end; ++route) {
    const std::int32_t expert = routed_expert(ids[route], num_experts);
    if (expert >= 0) counts[expert] += 1;
  }
}

/// The definition. next_rows[expert] begins as first_rows of this source's cells and is used up.
/// Returns how many routes were dropped.
template <class Ids, class Rows, class Map>
MOESAIC_HD constexpr std::int64_t place_routes(const Ids& ids, std::int64_t num_routes,
                                               const ExpertPlacement& placement,
                                               std::int64_t capacity, Rows&& next_rows,
                                               Map&& dst_ranks, Map&& dst_rows) {
  std::int64_t dropped = 0;
  for (std::int64_t route = 0; route < num_routes; ++route) {
    const std::int32_t expert = routed_expert(ids[route], placement.num_experts());
    RouteTarget target;
    if (expert >= 0) {
      target = route_target(placement, expert, next_rows[expert], capacity);
      next_rows[expert] += 1;
      dropped += target.kept() ? 0 : 1;
    }
    dst_ranks[route] = target.rank;
    dst_rows[route] = target.row;
  }
  return dropped;
}

// ---- The same in parallel

/// Routes of block `block` when every block has `size` routes and the last one the rest.
MOESAIC_HD constexpr RouteRange route_block(std::int64_t block, std::int64_t size,
                                            std::int64_t num_routes) {
  const std::int64_t begin = min(saturating_mul(block, size), num_routes);
  return {begin, min(saturating_add(begin, size), num_routes)};
}

/// Turns block_counts[block · E + expert] of one expert into the routes to it of earlier blocks,
/// and returns the expert's total: this source's entry of the counts.
template <class Counts>
MOESAIC_HD constexpr std::int32_t scan_blocks(Counts&& block_counts, std::int64_t num_blocks,
                                              std::int32_t num_experts, std::int32_t expert) {
  std::int32_t total = 0;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const std::int64_t index = block * num_experts + expert;
    const std::int32_t count = block_counts[index];
    block_counts[index] = total;
    total += count;
  }
  return total;
}

/// The place of a lane among the lanes of its chunk that have the same expert: bit l of `same` is
/// set where lane l has it. The last of them moves the expert's cursor on by `earlier + 1`.
struct LanePlace {
  std::int32_t earlier = 0;
  bool last = false;
  bool operator==(const LanePlace&) const = default;
};
MOESAIC_HD constexpr LanePlace lane_place(std::uint32_t same, std::int32_t lane) {
  return {count_ones(same & ((std::uint32_t{1} << lane) - 1)), (same >> lane) == 1};
}

}  // namespace moesaic::math
