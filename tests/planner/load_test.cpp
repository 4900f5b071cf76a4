// SPDX-License-Identifier: Apache-2.0
// Skew metrics, tail and alignment ledgers: golden histograms, edges, properties.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;

constexpr std::int64_t kBig = std::int64_t{1} << 62;
const Rows kNearUniform = {17, 17, 17, 17, 16, 16, 16, 16};
const Rows kConcentrated = {100, 32, 0, 0, 0, 0, 0, 0};

struct Golden {
  std::string name;
  Rows counts;
  std::int64_t useful, active, max;
  double effective;
  Rows padded;  // at tiles 8, 16, 32, 64, 128
};

Rows evenly_spread_remainders() {
  // 256 experts, mean 256, remainders modulo 128 spread evenly: what 8,192 tokens x 8 look like.
  Rows counts;
  for (std::int64_t expert = 0; expert < 256; ++expert) counts.push_back(128 + expert);
  counts[0] += 128;
  return counts;
}

Rows repeated(std::size_t experts, std::size_t loaded, std::int64_t rows) {
  Rows counts(experts, 0);
  std::fill(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(loaded), rows);
  return counts;
}

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
      {"near uniform", kNearUniform, 132, 8, 17, 7.9927, {160, 192, 256, 512, 1024}},
      {"concentrated", kConcentrated, 132, 2, 100, 1.5806, {136, 144, 160, 192, 256}},
      {"all zero", Rows(8, 0), 0, 0, 0, 0.0, {0, 0, 0, 0, 0}},
      {"zeros at both ends", {0, 3, 2, 0}, 5, 2, 3, 1.9231, {16, 32, 64, 128, 256}},
      {"two empty of six",
       {162, 0, 2577, 446, 0, 83},
       3268,
       4,
       2577,
       1.5539,
       {3288, 3312, 3328, 3392, 3584}},
      {"three of five", {0, 8, 8, 0, 16}, 32, 3, 16, 2.6667, {32, 48, 96, 192, 384}},
      {"same eight of 128", repeated(128, 8, 1024), 8192, 8, 1024, 8.0, Rows(5, 8192)},
      {"one row each", Rows(256, 1), 256, 256, 1, 256.0, {2048, 4096, 8192, 16384, 32768}},
      {"60 experts", Rows(60, 4), 240, 60, 4, 60.0, {480, 960, 1920, 3840, 7680}},
      {"around tile edges",
       {127, 128, 129, 255, 256, 257},
       1152,
       6,
       257,
       5.3999,
       {1168, 1184, 1216, 1280, 1408}}};
  return all;
}

TEST(MeasureLoad, GoldenHistograms) {
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.name);
    const LoadMetrics load = measure_load(golden.counts);
    EXPECT_EQ(load.experts, static_cast<std::int64_t>(golden.counts.size()));
    EXPECT_EQ(load.useful_rows, golden.useful);
    EXPECT_EQ(load.active_experts, golden.active);
    EXPECT_EQ(load.max_rows, golden.max);
    EXPECT_NEAR(load.effective_experts, golden.effective, 5e-5);
    const Rows tiles = {8, 16, 32, 64, 128};
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const TileLedger ledger = tile_ledger(golden.counts, tiles[i]);
      EXPECT_EQ(ledger.tile, tiles[i]);
      EXPECT_EQ(ledger.padded_rows, golden.padded[i]) << "tile " << tiles[i];
      EXPECT_EQ(ledger.padding_rows, golden.padded[i] - golden.useful);
      EXPECT_EQ(ledger.row_tiles * tiles[i], golden.padded[i]);
    }
  }
}

TEST(MeasureLoad, PercentagesOfTheTwoSeedExamples) {
  EXPECT_DOUBLE_EQ(tile_ledger(kNearUniform, 8).padding_fraction, 0.175);
  EXPECT_DOUBLE_EQ(tile_ledger(kNearUniform, 16).padding_fraction, 0.3125);
  EXPECT_DOUBLE_EQ(tile_ledger(kNearUniform, 32).padding_fraction, 0.484375);
  EXPECT_NEAR(tile_ledger(kConcentrated, 8).padding_fraction, 0.0294, 5e-5);
  EXPECT_DOUBLE_EQ(tile_ledger(kConcentrated, 32).padding_fraction, 0.175);
}

TEST(MeasureLoad, OtherToolsNumbers) {
  const LoadMetrics load = measure_load(Rows{6, 2, 0, 0});
  EXPECT_DOUBLE_EQ(load.mean_rows, 2.0);
  EXPECT_DOUBLE_EQ(load.i_max, 3.0);
  EXPECT_DOUBLE_EQ(load.balancedness, 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(load.imbalance, 2.0);
  EXPECT_NEAR(load.cv, std::sqrt(6.0) / 2.0, 1e-15);  // deviations 4, 0, -2, -2
  EXPECT_NEAR(load.entropy_bits, 0.8112781245, 1e-9);
  EXPECT_NEAR(load.i_h, 1.0 - 0.8112781245 / 2.0, 1e-9);
  EXPECT_DOUBLE_EQ(load.effective_experts, 64.0 / 40.0);
}

TEST(MeasureLoad, EvenAndOneHotAreTheEndsOfTheScale) {
  for (const std::size_t experts : {2u, 3u, 60u, 1025u, 4096u}) {
    SCOPED_TRACE(experts);
    const LoadMetrics even = measure_load(Rows(experts, 7));
    EXPECT_GE(even.i_h, 0.0);
    EXPECT_NEAR(even.i_h, 0.0, 1e-12);
    EXPECT_EQ(even.cv, 0.0);
    EXPECT_EQ(even.effective_experts, static_cast<double>(experts));
    const LoadMetrics hot = measure_load(repeated(experts, 1, 1001));
    EXPECT_EQ(hot.i_h, 1.0);
    EXPECT_EQ(hot.effective_experts, 1.0);
    EXPECT_EQ(hot.entropy_bits, 0.0);
    EXPECT_DOUBLE_EQ(hot.i_max, static_cast<double>(experts));
  }
}

TEST(MeasureLoad, OneExpertAndNoRowsHaveNoNaN) {
  const LoadMetrics one = measure_load(Rows{77});
  EXPECT_EQ(one.i_h, 0.0);
  EXPECT_EQ(one.effective_experts, 1.0);
  EXPECT_EQ(one.i_max, 1.0);
  for (const std::size_t experts : {1u, 8u}) {
    const LoadMetrics none = measure_load(Rows(experts, 0));
    for (const double value : {none.effective_experts, none.i_h, none.i_max, none.balancedness,
                               none.imbalance, none.cv, none.entropy_bits, none.mean_rows}) {
      EXPECT_EQ(value, 0.0);
    }
    EXPECT_EQ(tile_ledger(Rows(experts, 0), 64).padding_fraction, 0.0);
  }
}

TEST(MeasureLoad, TwoHistogramsWithTheSameMaximum) {
  // The report's Fig. 72: one expert of 16 at 31.67 % of 65,536 rows, or three of them.
  Rows spike(16, (65536 - 20752) / 15);
  spike[0] = 20752;
  spike[1] += 65536 - 20752 - 15 * ((65536 - 20752) / 15);
  Rows three(16, (65536 - 3 * 20752) / 13);
  three[0] = three[5] = three[10] = 20752;
  three[1] += 65536 - 3 * 20752 - 13 * ((65536 - 3 * 20752) / 13);
  const LoadMetrics a = measure_load(spike);
  const LoadMetrics b = measure_load(three);
  ASSERT_EQ(a.useful_rows, 65536);
  ASSERT_EQ(b.useful_rows, 65536);
  EXPECT_NEAR(a.i_max, 5.07, 0.005);
  EXPECT_EQ(a.i_max, b.i_max);
  EXPECT_NEAR(a.i_h, 0.107, 0.001);
  EXPECT_NEAR(b.i_h, 0.506, 0.001);
  EXPECT_NEAR(a.effective_experts, 7.6, 0.05);
  EXPECT_NEAR(b.effective_experts, 3.3, 0.05);
}

TEST(TileLedger, RowsPastInt64NameTheCounts) {
  try {
    tile_ledger(Rows{std::numeric_limits<std::int64_t>::max()}, 8);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("counts (--rows)"), 0u) << error.what();
  }
}

TEST(MeasureLoad, LargeCountsAreExactOrRefused) {
  const LoadMetrics one = measure_load(Rows{kBig, 0});
  EXPECT_EQ(one.effective_experts, 1.0);
  const LoadMetrics two = measure_load(Rows{kBig, kBig - 1});
  EXPECT_EQ(two.useful_rows, std::numeric_limits<std::int64_t>::max());
  EXPECT_NEAR(two.effective_experts, 2.0, 1e-12);
  EXPECT_THROW(measure_load(Rows{kBig, kBig}), Error);
  EXPECT_EQ(tile_ledger(Rows{kBig}, 128).padded_rows, kBig);
  EXPECT_THROW(tile_ledger(Rows{kBig, kBig - 1}, 8), Error);  // P would be 2^63
  EXPECT_THROW(alignment_ledger(Rows{kBig, kBig - 1}, "fp8"), Error);
  EXPECT_EQ(tile_ledger(Rows{kBig, kBig - 1}, 1).padding_rows, 0);
}

TEST(MeasureLoad, RefusalsNameTheExpertAndTheValue) {
  try {
    measure_load(Rows{1, 2, -7});
    FAIL() << "a negative count was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("-7 for expert 2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(measure_load({}), Error);
  EXPECT_THROW(tile_ledger(kNearUniform, 0), Error);
  EXPECT_THROW(tile_ledger(kNearUniform, -8), Error);
}

TEST(RowTileBound, KnownFigureAndEdges) {
  EXPECT_EQ(row_tile_bound(131072, 32, 128), 1055);  // flashinfer#3198: one less was too few
  EXPECT_EQ(row_tile_bound(0, 32, 128), 0);
  EXPECT_EQ(row_tile_bound(3, 32, 128), 3);  // fewer rows than experts: a tile each
  EXPECT_THROW(row_tile_bound(-1, 32, 128), Error);
  EXPECT_THROW(row_tile_bound(1, 0, 128), Error);
  EXPECT_THROW(row_tile_bound(1, 32, 0), Error);
  EXPECT_THROW(row_tile_bound(kBig, kBig, 128), Error);
}

TEST(RowTileBound, IsReachedByTheWorstHistogramAndNeverPassed) {
  // Worst: every expert one row past a tile edge, what is left as whole tiles.
  Rows worst(32, 1);
  worst[0] += 131072 - 32;  // 131,040 more rows: 1023 tiles and 96 rows
  EXPECT_EQ(tile_ledger(worst, 128).row_tiles, 1055);
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    Rows counts(1 + random() % 40);
    for (std::int64_t& rows : counts) rows = static_cast<std::int64_t>(random() % 300);
    const std::int64_t tile = std::int64_t{1} << (random() % 8);
    EXPECT_LE(tile_ledger(counts, tile).row_tiles,
              row_tile_bound(measure_load(counts).useful_rows,
                             static_cast<std::int64_t>(counts.size()), tile));
  }
}

TEST(Alignment, NamesNumbersAndTheDeepGemmFigure) {
  EXPECT_EQ(alignment_ledger(kNearUniform, "none").padding_rows, 0);
  EXPECT_EQ(alignment_ledger(kNearUniform, "fp8").aligned_rows, 192);
  EXPECT_EQ(alignment_ledger(kNearUniform, "mxfp8").aligned_rows, 256);
  EXPECT_EQ(alignment_ledger(kNearUniform, "8").aligned_rows, 160);
  EXPECT_EQ(alignment_ledger(Rows{0, 3, 2, 0}, "deepgemm").aligned_rows, 256);
  // DeepGEMM#98: 8,192 tokens to 8 of 256 experts waste about a fifth in blocks of 128 rows.
  const Rows counts = evenly_spread_remainders();
  ASSERT_EQ(measure_load(counts).useful_rows, 8192 * 8);
  const AlignmentLedger ledger = alignment_ledger(counts, "deepgemm");
  EXPECT_EQ(ledger.padding_rows, 16256);
  EXPECT_NEAR(ledger.padding_fraction, 0.199, 0.0005);
  for (const char* bad : {"", "fp4", "0", "-8", "8 ", "1.5"}) {
    EXPECT_THROW(alignment_ledger(kNearUniform, bad), Error) << bad;
  }
}

TEST(Ledgers, PropertiesOfRandomHistograms) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    Rows counts(1 + random() % 300);
    const std::uint64_t limit = 1 + random() % 5000;
    for (std::int64_t& rows : counts) {
      rows = random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % limit);
    }
    const LoadMetrics load = measure_load(counts);
    const std::int64_t tile = 1 + static_cast<std::int64_t>(random() % 300);
    const TileLedger ledger = tile_ledger(counts, tile);
    ASSERT_EQ(ledger.padded_rows % tile, 0);
    ASSERT_GE(ledger.padded_rows, load.useful_rows);
    ASSERT_LE(ledger.padding_rows, load.active_experts * (tile - 1));
    ASSERT_EQ(alignment_ledger(counts, std::to_string(tile)).aligned_rows, ledger.padded_rows);
    if (load.useful_rows == 0) continue;
    const double slack = 1e-9;
    ASSERT_GE(load.effective_experts, 1.0 - slack);
    ASSERT_LE(load.effective_experts, static_cast<double>(load.active_experts) + slack);
    ASSERT_GE(load.i_h, 0.0);
    ASSERT_LE(load.i_h, 1.0);
    ASSERT_GE(load.i_max, 1.0 - slack);
    ASSERT_NEAR(load.i_max * load.balancedness, 1.0, slack);
    ASSERT_NEAR(load.imbalance, load.i_max - 1.0, slack);
    // cv and effective experts are one fact: cv^2 = E / N_eff - 1.
    ASSERT_NEAR(load.cv * load.cv, static_cast<double>(load.experts) / load.effective_experts - 1.0,
                1e-7);
  }
}

TEST(Throughput, EffectiveAndPhysicalDifferByThePaddedRows) {
  const Throughput rate = throughput(132, 256, 4096, 2048, 1e-3);
  EXPECT_DOUBLE_EQ(rate.effective_flops_per_second, 2.0 * 132 * 4096 * 2048 * 1e3);
  EXPECT_DOUBLE_EQ(rate.physical_flops_per_second, 2.0 * 256 * 4096 * 2048 * 1e3);
  EXPECT_THROW(throughput(5, 4, 8, 8, 1.0), Error);
  EXPECT_THROW(throughput(-1, 4, 8, 8, 1.0), Error);
  EXPECT_THROW(throughput(4, 4, 0, 8, 1.0), Error);
  EXPECT_THROW(throughput(4, 4, 8, 8, 0.0), Error);
  EXPECT_THROW(throughput(4, 4, 8, 8, std::nan("")), Error);
}

}  // namespace
}  // namespace moesaic::planner
