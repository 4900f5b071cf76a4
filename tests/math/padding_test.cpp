// SPDX-License-Identifier: Apache-2.0
#include "math/padding.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "math/integer.hpp"

namespace moesaic::math {
namespace {

constexpr std::int64_t kOneAndAQuarter = 1'250'000;

static_assert(padded_rows(0, 128) == 0 && padded_rows(1, 128) == 128 &&
              padded_rows(128, 128) == 128);
static_assert(tail_padding_rows(129, 128) == 127);
static_assert(ceil_mean_capacity(kOneAndAQuarter, 10, 4) == 4, "1.25 * 2.5 = 3.125");
static_assert(ceil_mean_capacity(kOneAndAQuarter, 64, 16) == 5, "1.25 * 4 = 5 exactly");
static_assert(ceil_mean_capacity(kOneAndAQuarter, 131072, 16) == 10240);
static_assert(eight_row_capacity(kOneAndAQuarter, 131072, 16, 8) == 10240, "8 * 8 * (1280 / 8)");
static_assert(eight_row_capacity(kOneAndAQuarter, 1000, 16, 4) == 96,
              "floor(78.125 / 4) = 19 -> 24");
static_assert(eight_row_capacity(kOneAndAQuarter, 5, 16, 1) == 0,
              "a share below one row is no row");
static_assert(ceil_mean_capacity(kOneAndAQuarter, 100, 0) == 0);
static_assert(eight_row_capacity(kOneAndAQuarter, 100, 0, 4) == 0);
// 1.1 · 10 is 11.000000000000002 in binary floating point: a ceiling of that would be 12.
static_assert(ceil_mean_capacity(1'100'000, 10, 1) == 11);
// 0.57 · 100 is 56.99999999999999 there: its floor would be 56, hence 56 rows instead of 64.
static_assert(eight_row_capacity(570'000, 100, 1, 1) == 64);
static_assert(ceil_mean_capacity(kOneAndAQuarter, std::int64_t{1} << 40, 3) == 458'129'844'907);

struct PaddingCase {
  std::vector<std::int64_t> counts;
  std::int64_t tile;
  std::int64_t padded;
};

TEST(Padding, KnownHistograms) {
  const std::vector<std::int64_t> near_uniform = {17, 17, 17, 17, 16, 16, 16, 16};
  const std::vector<std::int64_t> concentrated = {100, 32, 0, 0, 0, 0, 0, 0};
  const std::vector<PaddingCase> cases = {
      {near_uniform, 8, 160}, {near_uniform, 16, 192}, {near_uniform, 32, 256},
      {concentrated, 8, 136}, {concentrated, 32, 160}, {{0, 0, 0}, 128, 0},
  };
  for (const PaddingCase& c : cases) {
    std::int64_t padded = 0;
    std::int64_t padding = 0;
    for (const std::int64_t rows : c.counts) {
      padded += padded_rows(rows, c.tile);
      padding += tail_padding_rows(rows, c.tile);
    }
    EXPECT_EQ(padded, c.padded) << "tile " << c.tile;
    EXPECT_EQ(padded - padding, std::accumulate(c.counts.begin(), c.counts.end(), std::int64_t{0}));
  }
}

// The capacity is the only integer that satisfies the inequalities below, all in exact integers:
// ceil_mean: (C − 1) · 10⁶ · E < f · M ≤ C · 10⁶ · E.
TEST(Padding, CeilMeanIsExact) {
  for (const std::int64_t factor :
       {0L, 1L, 333'333L, 1'000'000L, 1'100'000L, 1'250'000L, 2'300'000L, 7'000'001L}) {
    for (std::int64_t experts = 1; experts <= 24; ++experts) {
      for (std::int64_t rows = 0; rows <= 300; ++rows) {
        const std::int64_t capacity = ceil_mean_capacity(factor, rows, experts);
        ASSERT_LE(factor * rows, capacity * kMillion * experts);
        ASSERT_LT((capacity - 1) * kMillion * experts, factor * rows);
      }
    }
  }
}

// eight_row by counting up: the share is the largest integer s with s · 10⁶ · E · S ≤ f · M.
TEST(Padding, EightRowIsExact) {
  for (const std::int64_t factor : {0L, 999'999L, 1'000'000L, 1'250'000L, 2'300'000L}) {
    for (const std::int64_t ranks : {1L, 2L, 3L, 8L, 10L}) {
      for (std::int64_t experts = 1; experts <= 9; ++experts) {
        std::int64_t share = 0;  // grows with rows
        for (std::int64_t rows = 0; rows <= 700; ++rows) {
          while ((share + 1) * kMillion * experts * ranks <= factor * rows) ++share;
          std::int64_t rounded = 0;
          while (rounded < share) rounded += 8;
          ASSERT_EQ(eight_row_capacity(factor, rows, experts, ranks), ranks * rounded)
              << factor << " " << rows << "/" << experts << " S " << ranks;
        }
      }
    }
  }
}

TEST(Padding, LargeOperandsStayExact) {
  // f · M = 1.25e6 · 2⁵⁰ exceeds 2⁶³.
  EXPECT_EQ(ceil_mean_capacity(kOneAndAQuarter, std::int64_t{1} << 50, 4096),
            (std::int64_t{1} << 38) / 4 * 5);
  EXPECT_EQ(eight_row_capacity(kOneAndAQuarter, std::int64_t{1} << 50, 4096, 512),
            (std::int64_t{1} << 38) / 4 * 5);
}

}  // namespace
}  // namespace moesaic::math
