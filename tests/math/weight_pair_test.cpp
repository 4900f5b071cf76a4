// SPDX-License-Identifier: Apache-2.0
// How two CTAs share the schedule of wgrad: over a whole launch, together or apart, every element
// of every dw that is to be written is one CTA's, once; together both have the same steps, and what
// they load for each other is what both multiply.
#include "math/weight_pair.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "math/checked_span.hpp"
#include "math/halved_tiles.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {
namespace {

// ---- One tile: dw of 300 x 500 by the kernels' tiles.

constexpr auto kOne = weight_tile_grid<std::int32_t>(1, 1000, 300, 500, 128, 256, 64, 8);
constexpr auto kPairs = pair_weight_grid(kOne);
constexpr std::array<std::int32_t, 1> kOffs = {1000};
static_assert(kPairs.tile_n == 256 && kPairs.n_tiles == 2 && kPairs.group_n == 4);
static_assert(kPairs.tile_k == 256 && kPairs.k_tiles == 2 && kPairs.n == 300 && kPairs.k == 500);
static_assert(pair_weight_grid(weight_tile_grid<>(1, 1, 1, 1, 128, 256, 64, 1)).group_n == 1);

constexpr auto own(std::int32_t local, int cta, int side = -1) {
  const auto tile = weight_tile_of_expert(kOffs.data(), kPairs, 0, local);
  return weight_pair_tile(side < 0 ? tile : half_of(tile, kPairs, side), kPairs, cta);
}
constexpr bool has(const WeightPairTile<std::int32_t>& tile, std::int64_t n, std::int32_t lines,
                   std::int64_t k, std::int32_t columns, bool half) {
  return tile.together && tile.half == half && tile.n_begin == n && tile.n_count == lines &&
         tile.k_begin == k && tile.k_count == columns && tile.row_blocks == 16;
}
static_assert(has(own(0, 0), 0, 128, 0, 256, false) && has(own(0, 1), 128, 128, 0, 256, false));
// Lines for one alone, of which both have half of the columns; but a half is not cut again.
static_assert(has(own(1, 0), 256, 44, 0, 128, true) && has(own(1, 1), 256, 44, 128, 128, true));
static_assert(has(own(3, 0), 256, 44, 256, 128, true) && has(own(3, 1), 256, 44, 384, 116, true));
static_assert(has(own(3, 0, 1), 256, 44, 384, 116, true) &&
              has(own(3, 1, 1), 384, 0, 384, 116, true));

static_assert(weight_pair_share(kPairs, own(0, 1)) == 128 &&
              weight_pair_share(kOne, own(0, 1)) == 128 &&
              weight_pair_share(kPairs, own(0, 1, 0)) == 0 &&
              weight_pair_share(kPairs, own(1, 0)) == 0 &&
              weight_pair_share(kPairs, WeightPairTile<std::int32_t>{}) == 0);

// ---- When they work together.

static_assert(about_equally_long(8, 8) && about_equally_long(8, 9) && !about_equally_long(8, 10));
static_assert(about_equally_long(7, 7) && !about_equally_long(7, 8) && !about_equally_long(0, 1));
static_assert(about_equally_long(0, 0) && about_equally_long(kMaxOf<std::int32_t>, 0));

// ---- A whole launch, as the kernel goes through it.

struct Launch {
  WeightTileGrid<> grid;  // of single CTAs
  std::vector<std::int32_t> offs;
  bool accumulate = false;
  std::int64_t done_rows = 0;
  std::int64_t ctas = 2;  // even
  std::uint64_t seed = 1;
};

/// Experts whose dw is written, and whether their contractions are about equally long.
struct Experts {
  std::vector<std::int32_t> written;
  bool together = false;
};
Experts experts_of(const Launch& launch) {
  Experts experts;
  std::int64_t shortest = kMaxOf<std::int32_t>, longest = 0;
  const auto num_experts = static_cast<std::int32_t>(launch.offs.size());
  for (std::int32_t e = 0; e < num_experts; ++e) {
    const std::int64_t rows = expert_rows(CheckedSpan(launch.offs), e, launch.grid.max_rows).rows();
    if (launch.accumulate && rows == 0) continue;
    if (launch.done_rows > 0 && rows <= launch.done_rows) continue;
    experts.written.push_back(e);
    const std::int64_t blocks = (rows + launch.grid.block_rows - 1) / launch.grid.block_rows;
    shortest = std::min(shortest, blocks);
    longest = std::max(longest, blocks);
  }
  experts.together =
      about_equally_long(static_cast<std::int32_t>(shortest), static_cast<std::int32_t>(longest));
  return experts;
}

class Stores {
 public:
  explicit Stores(const Launch& launch)
      : launch_(launch), counts_(launch.offs.size() * elements()) {}

  void add(const WeightTile<>& tile) {
    for (std::int64_t n = tile.n_begin; n < tile.n_begin + tile.n_count; ++n) {
      for (std::int64_t k = tile.k_begin; k < tile.k_begin + tile.k_count; ++k) {
        ++counts_.at(static_cast<std::size_t>(tile.expert) * elements() +
                     static_cast<std::size_t>(n * launch_.grid.k + k));
      }
    }
  }
  void expect_once(const std::vector<std::int32_t>& written) const {
    for (std::size_t e = 0; e < launch_.offs.size(); ++e) {
      const bool is = std::count(written.begin(), written.end(), static_cast<int>(e)) > 0;
      const auto begin = counts_.begin() + static_cast<std::ptrdiff_t>(e * elements());
      const auto size = static_cast<std::ptrdiff_t>(elements());
      ASSERT_EQ(std::count(begin, begin + size, is ? 1 : 0), size) << "expert " << e;
    }
  }

 private:
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(launch_.grid.n * launch_.grid.k);
  }
  const Launch& launch_;
  std::vector<int> counts_;
};

/// Tile `index` of the written experts, one after the other.
WeightTile<> tile_at_index(const Launch& launch, const WeightTileGrid<>& grid,
                           const Experts& experts, std::int64_t index) {
  const std::int64_t per_expert = grid.tiles_per_expert();
  const auto expert = static_cast<std::size_t>(index / per_expert);
  if (expert >= experts.written.size()) return {};
  return weight_tile_of_expert(CheckedSpan(launch.offs), grid, experts.written[expert],
                               index % per_expert);
}

/// The same steps for both, in the room of a CTA, and what both multiply loaded once.
void expect_in_step(const WeightTile<>& tile, const std::array<WeightPairTile<>, 2>& both,
                    const WeightTileGrid<>& grid) {
  ASSERT_TRUE(both[0].n_count > 0 && both[0].k_count > 0);
  ASSERT_EQ(both[0].half, both[1].half);
  ASSERT_EQ(both[0].half, tile.half || tile.n_count <= grid.tile_n / 2);
  for (const WeightPairTile<>& part : both) {
    ASSERT_TRUE(part.together);
    ASSERT_TRUE(part.expert == tile.expert && part.rows == tile.rows &&
                part.row_blocks == tile.row_blocks);
    ASSERT_LE(part.n_count, grid.tile_n / 2);
    ASSERT_LE(part.k_count, part.half ? grid.tile_k / 2 : grid.tile_k);
    // Consumers go by where it begins alone.
    ASSERT_TRUE(part.n_count > 0 || part.n_begin >= grid.n);
    ASSERT_TRUE(part.k_count > 0 || part.k_begin >= grid.k);
    ASSERT_TRUE(part.half || part.k_begin == tile.k_begin) << "columns that both multiply";
    ASSERT_EQ(2 * weight_pair_share(grid, part), part.half ? 0 : grid.tile_k);
  }
}

void go_together(const Launch& launch, const Experts& experts, Stores& stores) {
  const WeightTileGrid<> grid = pair_weight_grid(launch.grid);
  const std::int64_t pairs = launch.ctas / 2;
  const HalvedTiles tiles = halve_last_round(
      static_cast<std::int64_t>(experts.written.size()) * grid.tiles_per_expert(), pairs);
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    for (std::int64_t index = pair;; index += pairs) {
      const TilePlace place = place_of(tiles, index);
      WeightTile<> tile = tile_at_index(launch, grid, experts, place.tile);
      if (!tile.valid()) break;
      if (place.side >= 0) tile = half_of(tile, grid, place.side);
      if (tile.k_count == 0) continue;  // a right half of nothing: both CTAs pass it over
      const std::array both{weight_pair_tile(tile, grid, 0), weight_pair_tile(tile, grid, 1)};
      expect_in_step(tile, both, grid);
      for (const WeightPairTile<>& part : both) stores.add(part);
    }
  }
}

void go_apart(const Launch& launch, const Experts& experts, Stores& stores) {
  const std::int64_t total =
      static_cast<std::int64_t>(experts.written.size()) * launch.grid.tiles_per_expert();
  // The first to each CTA, the others to whoever is free.
  take_turns(total, plain_turns(launch.ctas, 0), launch.ctas, launch.seed,
             [&](std::int64_t /*worker*/, std::int64_t index) {
               const WeightTile<> tile = tile_at_index(launch, launch.grid, experts, index);
               ASSERT_EQ(tile.valid(), index < total);
               if (!tile.valid()) return;
               const WeightPairTile<> own_tile{tile};
               ASSERT_EQ(weight_pair_share(launch.grid, own_tile), 0);
               stores.add(own_tile);
             });
}

/// @returns whether pairs work together.
bool expect_written_once(const Launch& launch) {
  const Experts experts = experts_of(launch);
  Stores stores(launch);
  if (experts.together) {
    go_together(launch, experts, stores);
  } else {
    go_apart(launch, experts, stores);
  }
  stores.expect_once(experts.written);
  return experts.together;
}

std::vector<std::int32_t> ends_of(const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> ends;
  ends.reserve(counts.size());
  std::int32_t end = 0;
  for (const std::int32_t count : counts) ends.push_back(end += count);
  return ends;
}

TEST(WeightPair, EveryElementIsOneCtasOnceTogetherAndApart) {
  std::mt19937_64 random(31);
  const auto below = [&](int limit) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(limit));
  };
  int together = 0, apart = 0;
  for (int i = 0; i < 3000; ++i) {
    const int kind = below(4);  // equal, equal or none, nearly equal, any
    const std::int32_t equal = 16 + below(30);
    std::vector<std::int32_t> counts;
    for (int e = 1 + below(7); e > 0; --e) {
      counts.push_back(kind == 0   ? equal
                       : kind == 1 ? below(2) * equal
                       : kind == 2 ? equal + below(4)
                                   : below(60));
    }
    Launch launch;
    launch.offs = ends_of(counts);
    launch.grid =
        weight_tile_grid<>(static_cast<std::int32_t>(counts.size()), launch.offs.back() + below(5),
                           1 + below(40), 1 + below(30), 4, 8, 2, 1 + below(4));
    launch.accumulate = below(2) == 0;
    launch.done_rows = below(4) == 0 ? below(20) : 0;
    launch.ctas = 2 + 2 * std::int64_t{below(20)};
    launch.seed = random();
    (expect_written_once(launch) ? together : apart) += 1;
    if (HasFatalFailure()) FAIL() << "launch " << i;
  }
  EXPECT_GT(together, 500);
  EXPECT_GT(apart, 500);
}

// Widths around every edge of the kernels' own tiles.
TEST(WeightPair, OfTheKernelsTilesToo) {
  for (const std::int64_t n : {8, 64, 72, 128, 136, 192, 256, 264, 384, 392, 512}) {
    for (const std::int64_t k : {8, 120, 128, 136, 256, 264, 384, 392}) {
      for (const std::vector<std::int32_t>& counts :
           {std::vector<std::int32_t>{300}, {256, 256, 256}, {512, 576}, {512, 640}, {0, 0}}) {
        Launch launch;
        launch.offs = ends_of(counts);
        launch.grid = weight_tile_grid<>(static_cast<std::int32_t>(counts.size()),
                                         launch.offs.back(), n, k, 128, 256, 64, 8);
        for (const std::int64_t ctas : {2, 4, 10, 132}) {
          launch.ctas = ctas;
          EXPECT_EQ(expect_written_once(launch), counts.back() != 640) << n << ' ' << k;
        }
      }
    }
  }
}

TEST(WeightPair, WrongOffsetsSpoilTheirOwnExpertsAlone) {
  ScheduleCases cases(32);
  for (int i = 0; i < 300; ++i) {
    const ScheduleCase c = cases.next();
    if (c.offs.size() > 64) continue;
    Launch launch;
    launch.offs = c.offs;
    launch.grid = weight_tile_grid<>(static_cast<std::int32_t>(c.offs.size()), c.max_rows, 40, 20,
                                     4, 8, 2, 3);
    launch.ctas = 2 * c.num_workers;
    for (const bool accumulate : {false, true}) {
      launch.accumulate = accumulate;
      expect_written_once(launch);
      if (HasFatalFailure()) FAIL() << "case " << i;
    }
  }
}

}  // namespace
}  // namespace moesaic::math
