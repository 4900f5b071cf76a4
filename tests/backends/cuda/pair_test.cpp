// SPDX-License-Identifier: Apache-2.0
// The kernels in pairs of CTAs: what their table says, and who may name them. No device is needed.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/instances.hpp"
#include "math/pair_tiles.hpp"
#include "math/weight_pair.hpp"

namespace moesaic::backends::cuda {
namespace {

GroupedGemmProblem problem_of(Pass pass) {
  GroupedGemmProblem problem;
  problem.pass = pass;
  problem.num_experts = 16;
  problem.max_rows = 1024;
  problem.n = 1408;
  problem.k = 768;
  return problem;
}

// Two CTAs' tiles, of which each loads half of what both read by the boxes that there are, and a
// raster group as high as the tiles of all SMs are wide: 16 by 8 of 128 x 256.
TEST(Pairs, LoadWholeBoxesOfWhatBothRead) {
  int pairs = 0;
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_EQ(c.worker_ctas(), c.pair ? 2 : 1) << instance.name;
    if (!c.pair) continue;
    ++pairs;
    EXPECT_FALSE(c.gather || c.row_weights) << instance.name;
    if (c.wgrad) continue;
    EXPECT_FALSE(c.f32_out) << instance.name;
    const math::RowTileShape<std::int32_t> shape = c.row_shape();
    EXPECT_EQ(shape.tile_m * shape.group_m, 8 * shape.tile_n);
    EXPECT_LT(shape.few_m, shape.tile_m / 2) << "a tile has rows for the first CTA";
    const auto share = [&](math::PairShares shares, bool half) {
      math::PairTile<std::int32_t> own;
      own.shares = shares;
      own.half = half;
      return math::pair_share(shape, own);
    };
    EXPECT_EQ(share(math::PairShares::columns, false), kFewColumns) << "by the box of few rows";
    EXPECT_EQ(share(math::PairShares::columns, true), c.b_box_columns());
    EXPECT_EQ(share(math::PairShares::rows, true), kFewRows) << "by the box of few rows";
    EXPECT_EQ(c.b_box_columns() % 64, 0) << "whole panels";
  }
  EXPECT_EQ(pairs, 6) << "three products, wgrad in FP32 too, and two with the activation";
}

// The same in wgrad: the boxes are those of half a tile, the raster group has the lines that it has
// with single CTAs, and the ring is that of forward.
TEST(Pairs, OfWgradDifferFromSingleCtasInWhoLoads) {
  int pairs = 0;
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    if (!c.pair || !c.wgrad) continue;
    ++pairs;
    KernelConfig single = c;
    single.pair = false;
    EXPECT_EQ(single, (KernelConfig{.wgrad = true, .b_mn_major = true, .f32_out = c.f32_out}));
    const auto one = math::weight_tile_grid<std::int32_t>(2, 999, 1000, 1000, c.tile_m, c.tile_n,
                                                          kBlockK, c.group_m);
    const auto two = math::pair_weight_grid(one);
    EXPECT_EQ(two.tile_n * two.group_n, one.tile_n * one.group_n);
    const auto tile = math::weight_tile_of_expert(std::vector{999, 999}, two, 0, 0);
    const auto own = math::weight_pair_tile(tile, two, 0);
    EXPECT_EQ(math::weight_pair_share(two, own), kFewColumns) << "by the box of half a tile";
    EXPECT_EQ(c.b_box_columns(), c.tile_n) << "the other is of a whole one, for each by itself";
    EXPECT_EQ(c.empty_arrivals(), 2 * kConsumerWarps);
  }
  EXPECT_EQ(pairs, 2);
}

TEST(Pairs, TheRegimeSaysSo) {
  for (const Instance& instance : kInstances) {
    if (!instance.config.pair) continue;
    if (instance.config.wgrad) {
      EXPECT_EQ(launch::regime_of(instance.config, 256), "") << "one size of tile";
      continue;
    }
    const std::vector<std::pair<std::int64_t, std::string>> expected = {{0, ""},
                                                                        {64, "64x128"},
                                                                        {65, "2x128x256"},
                                                                        {256, "2x128x256"},
                                                                        {257, "2x128x256+64x128"},
                                                                        {320, "2x128x256+64x128"},
                                                                        {321, "2x128x256"}};
    for (const auto& [rows, regime] : expected) {
      EXPECT_EQ(launch::regime_of(instance.config, rows), regime) << rows;
    }
  }
}

TEST(Pairs, NeedTwoSms) {
  DeviceInfo device;
  device.num_sms = 1;
  for (const Pass pass : {Pass::forward, Pass::wgrad}) {
    const GroupedGemmProblem problem = problem_of(pass);
    for (const Instance& instance : kInstances) {
      if (!launch::matches(instance, problem)) continue;
      PlanOptions options;
      options.implementation = implementation_name(instance);
      const Support support = launch::takes(instance, {problem, device, options});
      const bool pair = instance.config.pair;
      EXPECT_EQ(support.ok, !pair) << instance.name;
      const char* const part = pair ? "2 SMs or more for a pair of CTAs, not 1" : "";
      EXPECT_NE(support.reason.find(part), std::string::npos) << support.reason;
    }
  }
}

// The limit of the caller counts: a plan that names a pair and allows it one SM is refused.
TEST(Pairs, AreTakenWhenNamedAndNotOnOneSm) {
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  device.compute_capability = 90;
  device.num_sms = 132;
  PlanOptions options;
  GroupedGemmProblem problem;
  const auto support = [&] {
    for (const Candidate& candidate : GroupedGemm::candidates(problem, device, options)) {
      if (candidate.implementation == options.implementation) return candidate.support;
    }
    return Support{true, "no candidate of this name"};
  };
  for (const auto& [pass, name] : {std::pair(Pass::dgrad, "cuda/sm90/bf16_rows_2x128x256_mn"),
                                   std::pair(Pass::wgrad, "cuda/sm90/bf16_wgrad_2x128x256")}) {
    problem = problem_of(pass);
    options.implementation = name;
    for (const int num_sms : {0, 2, 3, 131}) {
      options.num_sms = num_sms;
      EXPECT_TRUE(support()) << num_sms;
      EXPECT_EQ(support().reason, "");
    }
    options.num_sms = 1;
    EXPECT_FALSE(support());
    EXPECT_NE(support().reason.find("2 SMs or more"), std::string::npos) << support().reason;
  }
}

}  // namespace
}  // namespace moesaic::backends::cuda
