// SPDX-License-Identifier: Apache-2.0
// Three ways to the same route maps: a list that is sorted by the words of the contract, the
// definition in math/, and its parallel form as a kernel runs it.
#include "math/row_route.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "math/checked_span.hpp"

namespace moesaic::math {
namespace {

// Two ranks with two experts each; two tokens of two slots on each rank.
constexpr ExpertPlacement kToy{2, 2};
constexpr std::array<std::array<std::int32_t, 4>, 2> kToyIds = {{{3, 2, 2, -1}, {3, 0, 4, 3}}};
struct ToyMaps {
  std::array<std::int32_t, 8> counts{};
  std::array<std::int64_t, 8> first_rows{};
  std::array<std::array<std::int32_t, 4>, 2> ranks{}, rows{};
  std::int64_t dropped = 0;
};
constexpr ToyMaps toy(std::int64_t capacity) {
  ToyMaps maps;
  for (std::int32_t source = 0; source < 2; ++source) {
    count_routes(kToyIds[source].data(), {0, 4}, 4, maps.counts.data() + source * 4);
  }
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    scan_cells(maps.counts.data(), kToy, rank, maps.first_rows.data());
  }
  auto next = maps.first_rows;
  for (std::int32_t source = 0; source < 2; ++source) {
    maps.dropped +=
        place_routes(kToyIds[source].data(), 4, kToy, capacity, next.data() + source * 4,
                     maps.ranks[source].data(), maps.rows[source].data());
  }
  return maps;
}
using Map = std::array<std::int32_t, 4>;
// Rank 1: expert 2 has rows 0 and 1 of rank 0; expert 3 row 2 of rank 0, rows 3 and 4 of rank 1.
static_assert(toy(8).counts == std::array<std::int32_t, 8>{0, 0, 2, 1, 1, 0, 0, 2});
static_assert(toy(8).ranks[0] == Map{1, 1, 1, -1} && toy(8).rows[0] == Map{2, 0, 1, -1});
static_assert(toy(8).ranks[1] == Map{1, 0, -1, 1} && toy(8).rows[1] == Map{3, 0, -1, 4});
static_assert(toy(5).dropped == 0 && toy(5).rows == toy(8).rows, "exactly full");
static_assert(toy(4).dropped == 1 && toy(4).rows[1] == Map{3, 0, -1, -1} &&
              toy(4).ranks[1] == Map{1, 0, -1, -1});
static_assert(toy(2).rows[0] == Map{-1, 0, 1, -1}, "later experts go first");
static_assert(rank_capacity(1'250'000, 3, 1) == 4 && rank_capacity(1'250'000, 8, 2) == 20);
static_assert(rank_capacity(1'250'000, 0, 8) == 0);
static_assert(lane_place(0b10110, 4) == LanePlace{2, true});
static_assert(lane_place(0b10110, 1) == LanePlace{0, false});
static_assert(lane_place(0xFFFFFFFFu, 31) == LanePlace{31, true});
static_assert(lane_place(1, 0) == LanePlace{0, true});

struct Case {
  ExpertPlacement placement;
  std::int64_t capacity = 0;
  std::vector<std::vector<std::int32_t>> ids;  // per source rank
};

/// What every form must produce.
struct Maps {
  std::vector<std::vector<std::int32_t>> ranks, rows;  // per source rank
  std::vector<std::vector<std::int32_t>> offs, kept;   // per destination rank
  std::vector<std::int64_t> dropped;                   // per source rank
  bool operator==(const Maps&) const = default;

  explicit Maps(const Case& c)
      : offs(c.placement.num_ranks,
             std::vector<std::int32_t>(static_cast<std::size_t>(c.placement.local_experts), -7)),
        kept(offs),
        dropped(c.ids.size(), 0) {
    for (const auto& ids : c.ids) {
      ranks.emplace_back(ids.size(), -7);
      rows.emplace_back(ids.size(), -7);
    }
  }
};

/// By the words: sort all routes by destination, local expert, source and route; number them; those
/// at the capacity and behind are dropped.
Maps sorted_form(const Case& c) {
  Maps maps(c);
  std::vector<std::tuple<std::int32_t, std::int32_t, std::size_t, std::size_t>> routes;
  for (std::size_t source = 0; source < c.ids.size(); ++source) {
    for (std::size_t route = 0; route < c.ids[source].size(); ++route) {
      maps.ranks[source][route] = maps.rows[source][route] = -1;
      const std::int32_t id = c.ids[source][route];
      if (id < 0 || id >= c.placement.num_ranks * c.placement.local_experts) continue;
      routes.emplace_back(id / c.placement.local_experts, id % c.placement.local_experts, source,
                          route);
    }
  }
  std::sort(routes.begin(), routes.end());
  for (auto& kept : maps.kept) std::fill(kept.begin(), kept.end(), 0);
  std::vector<std::int64_t> next(static_cast<std::size_t>(c.placement.num_ranks), 0);
  for (const auto& [rank, local, source, route] : routes) {
    const std::int64_t row = next[rank]++;
    if (row >= c.capacity) {
      ++maps.dropped[source];
      continue;
    }
    maps.ranks[source][route] = rank;
    maps.rows[source][route] = static_cast<std::int32_t>(row);
    ++maps.kept[rank][local];
  }
  for (std::size_t rank = 0; rank < maps.kept.size(); ++rank) {
    std::partial_sum(maps.kept[rank].begin(), maps.kept[rank].end(), maps.offs[rank].begin());
  }
  return maps;
}

struct Counts {
  std::vector<std::int32_t> counts;
  std::vector<std::int64_t> first_rows;

  explicit Counts(const Case& c)
      : counts(c.ids.size() * static_cast<std::size_t>(c.placement.num_experts()), 0),
        first_rows(counts.size(), -7) {}
  CheckedSpan<std::int32_t> of(std::span<std::int32_t> all, const Case& c, std::size_t source) {
    const auto experts = static_cast<std::size_t>(c.placement.num_experts());
    return CheckedSpan(all.subspan(source * experts, experts));
  }
};

void finish(const Case& c, const Counts& counts, Maps& maps) {
  for (std::int32_t expert = 0; expert < c.placement.num_experts(); ++expert) {
    const std::int32_t rank = c.placement.rank_of(expert);
    const auto local = static_cast<std::size_t>(expert - c.placement.first_expert(rank));
    const std::int32_t end = kept_end(CheckedSpan(counts.counts), CheckedSpan(counts.first_rows),
                                      c.placement, expert, c.capacity);
    maps.offs[rank][local] = end;
    maps.kept[rank][local] =
        kept_rows(CheckedSpan(counts.first_rows), c.placement, expert, end, c.capacity);
  }
}

Maps definition(const Case& c) {
  Maps maps(c);
  Counts all(c);
  const std::int32_t experts = c.placement.num_experts();
  for (std::size_t source = 0; source < c.ids.size(); ++source) {
    count_routes(CheckedSpan(c.ids[source]), {0, static_cast<std::int64_t>(c.ids[source].size())},
                 experts, all.of(all.counts, c, source));
  }
  for (std::int32_t rank = 0; rank < c.placement.num_ranks; ++rank) {
    scan_cells(CheckedSpan(all.counts), c.placement, rank, CheckedSpan(all.first_rows));
  }
  for (std::size_t source = 0; source < c.ids.size(); ++source) {
    std::vector<std::int64_t> next(
        all.first_rows.begin() + static_cast<std::ptrdiff_t>(source) * experts,
        all.first_rows.begin() + static_cast<std::ptrdiff_t>(source + 1) * experts);
    maps.dropped[source] =
        place_routes(CheckedSpan(c.ids[source]), static_cast<std::int64_t>(c.ids[source].size()),
                     c.placement, c.capacity, CheckedSpan(next), CheckedSpan(maps.ranks[source]),
                     CheckedSpan(maps.rows[source]));
  }
  finish(c, all, maps);
  return maps;
}

constexpr std::int64_t kLanes = 32;

/// One warp's work: the routes of a block in chunks of 32 lanes, `cursors` of the block alone.
void place_block(const Case& c, std::size_t source, RouteRange block,
                 const CheckedSpan<std::int32_t>& cursors, const Counts& all, Maps& maps) {
  const CheckedSpan ids(c.ids[source]);
  const std::int32_t experts = c.placement.num_experts();
  for (std::int64_t chunk = block.begin; chunk < block.end; chunk += kLanes) {
    std::array<std::int32_t, kLanes> expert{};
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t route = chunk + lane;
      expert[lane] = route < block.end ? routed_expert(ids[route], experts) : -1;
    }
    std::array<LanePlace, kLanes> place{};
    for (std::int32_t lane = 0; lane < kLanes; ++lane) {  // every lane reads before one writes
      std::uint32_t same = 0;
      for (std::int32_t other = 0; other < kLanes; ++other) {
        same |= expert[other] == expert[lane] ? std::uint32_t{1} << other : 0u;
      }
      place[lane] = lane_place(same, lane);
      const std::int64_t route = chunk + lane;
      if (route >= block.end) continue;
      RouteTarget target;
      if (expert[lane] >= 0) {
        const std::int64_t index =
            count_index(c.placement, static_cast<std::int32_t>(source), expert[lane]);
        const std::int64_t row =
            all.first_rows[index] + cursors[expert[lane]] + place[lane].earlier;
        target = route_target(c.placement, expert[lane], row, c.capacity);
        maps.dropped[source] += target.kept() ? 0 : 1;
      }
      CheckedSpan(maps.ranks[source])[route] = target.rank;
      CheckedSpan(maps.rows[source])[route] = target.row;
    }
    for (std::int32_t lane = 0; lane < kLanes; ++lane) {
      if (expert[lane] >= 0 && place[lane].last) cursors[expert[lane]] += place[lane].earlier + 1;
    }
  }
}

/// Blocks in any order, since each has its own cursors.
Maps parallel_form(const Case& c, std::int64_t block_size, std::mt19937& random) {
  Maps maps(c);
  Counts all(c);
  const auto experts = static_cast<std::size_t>(c.placement.num_experts());
  std::vector<std::vector<std::int32_t>> block_counts(c.ids.size());
  for (std::size_t source = 0; source < c.ids.size(); ++source) {
    const auto routes = static_cast<std::int64_t>(c.ids[source].size());
    const std::int64_t blocks = ceil_div(routes, block_size);
    block_counts[source].assign(static_cast<std::size_t>(blocks) * experts, 0);
    for (std::int64_t block = 0; block < blocks; ++block) {
      count_routes(CheckedSpan(c.ids[source]), route_block(block, block_size, routes),
                   c.placement.num_experts(),
                   all.of(block_counts[source], c, static_cast<std::size_t>(block)));
    }
    for (std::int32_t expert = 0; expert < c.placement.num_experts(); ++expert) {
      all.counts[source * experts + static_cast<std::size_t>(expert)] =
          scan_blocks(CheckedSpan(block_counts[source]), blocks, c.placement.num_experts(), expert);
    }
  }
  for (std::int32_t rank = 0; rank < c.placement.num_ranks; ++rank) {
    scan_cells(CheckedSpan(all.counts), c.placement, rank, CheckedSpan(all.first_rows));
  }
  for (std::size_t source = 0; source < c.ids.size(); ++source) {
    const auto routes = static_cast<std::int64_t>(c.ids[source].size());
    std::vector<std::int64_t> order(static_cast<std::size_t>(ceil_div(routes, block_size)));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const std::int64_t block : order) {
      place_block(c, source, route_block(block, block_size, routes),
                  all.of(block_counts[source], c, static_cast<std::size_t>(block)), all, maps);
    }
  }
  finish(c, all, maps);
  return maps;
}

template <class Int>
Int pick(std::mt19937& random, Int low, Int high) {
  return std::uniform_int_distribution<Int>(low, high)(random);
}

/// Ids of all kinds: spread, skewed to one expert or one rank, none, out of range.
std::int32_t random_id(std::mt19937& random, const ExpertPlacement& placement, int kind,
                       std::int32_t favourite) {
  const std::int32_t experts = placement.num_experts();
  const std::int32_t any = pick(random, 0, experts - 1);
  switch (kind) {
    case 0:
      return any;
    case 1:
      return favourite;
    case 2:
      return placement.first_expert(placement.rank_of(favourite)) + any % placement.local_experts;
    case 3:
      return -1;
    case 4:
      return pick(random, 0, 2) == 0 ? any : favourite;
    default:
      return pick(random, -3, experts + 2);
  }
}

Case random_case(std::mt19937& random) {
  Case c;
  c.placement = {pick(random, 1, 8), pick(random, 1, 9)};
  const std::int64_t topk = pick(random, 1, 8);
  const int kind = pick(random, 0, 5);
  const std::int32_t favourite = pick(random, 0, c.placement.num_experts() - 1);
  std::int64_t most = 0;
  for (std::int32_t source = 0; source < c.placement.num_ranks; ++source) {
    const std::int64_t tokens = pick(random, 0, 3) == 0 ? 0 : pick(random, 0, 30);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * topk));
    for (std::int32_t& id : ids) id = random_id(random, c.placement, kind, favourite);
    most = std::max(most, tokens);
    c.ids.push_back(std::move(ids));
  }
  c.capacity = rank_capacity(pick(random, 1, 2'000'000), most, topk);
  if (pick(random, 0, 3) == 0) {  // the fullest rank exactly full, one over, or one to spare
    c.capacity = kMaxOf<std::int32_t>;
    std::int64_t fullest = 0;
    for (const auto& offs : sorted_form(c).offs) {
      fullest = std::max<std::int64_t>(fullest, offs.back());
    }
    c.capacity = std::max<std::int64_t>(0, fullest + pick(random, -1, 1));
  }
  return c;
}

TEST(RowRoute, ThreeFormsAgreeOn20000Cases) {
  std::mt19937 random(7);
  std::int64_t routes = 0, dropped = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    const Case c = random_case(random);
    const Maps wanted = sorted_form(c);
    ASSERT_EQ(definition(c), wanted) << "trial " << trial;
    const std::int64_t block_size = pick<std::int64_t>(random, 1, 100);
    ASSERT_EQ(parallel_form(c, block_size, random), wanted)
        << "trial " << trial << ", blocks of " << block_size;
    for (const auto& ids : c.ids) routes += static_cast<std::int64_t>(ids.size());
    dropped += std::accumulate(wanted.dropped.begin(), wanted.dropped.end(), std::int64_t{0});
  }
  // The generator must reach what it is for.
  EXPECT_GT(routes, 2'000'000);
  EXPECT_GT(dropped, 200'000);
}

/// Said without any of the three: each kept route has a row of its own, rows are dense from 0,
/// their order is by expert, source and route, and nothing appears or is lost.
TEST(RowRoute, PropertiesOfTheMaps) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 2'000; ++trial) {
    const Case c = random_case(random);
    const Maps maps = definition(c);
    std::int64_t valid = 0, kept = 0;
    struct Filled {
      std::int32_t expert = -1;
      std::size_t source = 0, route = 0;
    };
    std::vector<std::vector<Filled>> rows(static_cast<std::size_t>(c.placement.num_ranks));
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      rows[rank].resize(static_cast<std::size_t>(maps.offs[rank].back()));
      ASSERT_LE(maps.offs[rank].back(), c.capacity);
    }
    for (std::size_t source = 0; source < c.ids.size(); ++source) {
      for (std::size_t route = 0; route < c.ids[source].size(); ++route) {
        const std::int32_t id = c.ids[source][route];
        const std::int32_t rank = maps.ranks[source][route], row = maps.rows[source][route];
        ASSERT_EQ(rank < 0, row < 0);
        valid += id >= 0 && id < c.placement.num_experts() ? 1 : 0;
        if (row < 0) continue;
        ++kept;
        ASSERT_EQ(rank, id / c.placement.local_experts);
        Filled& filled = CheckedSpan(rows[static_cast<std::size_t>(rank)])[row];
        ASSERT_EQ(filled.expert, -1) << "two routes in one row";
        filled = {id, source, route};
      }
    }
    std::int64_t filled = 0;
    for (const auto& rank : rows) {
      filled += static_cast<std::int64_t>(rank.size());
      for (std::size_t row = 0; row + 1 < rank.size(); ++row) {
        ASSERT_GE(rank[row].expert, 0) << "a hole at row " << row;
        ASSERT_LT(std::tie(rank[row].expert, rank[row].source, rank[row].route),
                  std::tie(rank[row + 1].expert, rank[row + 1].source, rank[row + 1].route));
      }
    }
    ASSERT_EQ(filled, kept);
    const auto dropped = std::accumulate(maps.dropped.begin(), maps.dropped.end(), std::int64_t{0});
    ASSERT_EQ(valid, kept + dropped);
  }
}

TEST(RowRoute, WideIdsAndLargeRows) {
  EXPECT_EQ(routed_expert(std::int64_t{1} << 40, 8), -1);
  EXPECT_EQ(routed_expert(std::int64_t{-1} << 40, 8), -1);
  EXPECT_EQ(routed_expert(std::int64_t{7}, 8), 7);
  const ExpertPlacement placement{4, 2};
  const std::int64_t last = kMaxOf<std::int32_t>;
  EXPECT_EQ(route_target(placement, 5, last - 1, last), (RouteTarget{2, kMaxOf<std::int32_t> - 1}));
  EXPECT_EQ(route_target(placement, 5, last, last), RouteTarget{});
  EXPECT_EQ(route_target(placement, 5, std::int64_t{1} << 33, last), RouteTarget{});
  EXPECT_EQ(route_block(kInt64Max / 2, 64, 100), (RouteRange{100, 100})) << "nothing wraps";
}

}  // namespace
}  // namespace moesaic::math
