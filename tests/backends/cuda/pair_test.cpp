// SPDX-License-Identifier: Apache-2.0
// The kernels in pairs of CTAs: what their table says, and who may name them. No device is needed.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/instances.hpp"
#include "math/pair_tiles.hpp"

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
// raster group as tall as the tiles of all SMs are wide: 16 by 8 of 128 x 256.
TEST(Pairs, LoadWholeBoxesOfWhatBothRead) {
  int pairs = 0;
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    EXPECT_EQ(c.worker_ctas(), c.pair ? 2 : 1) << instance.name;
    if (!c.pair) continue;
    ++pairs;
    EXPECT_FALSE(c.wgrad || c.f32_out || c.tall() || !is_product(c)) << instance.name;
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
  EXPECT_EQ(pairs, 2);
}

TEST(Pairs, TheRegimeSaysSo) {
  for (const Instance& instance : kInstances) {
    if (!instance.config.pair) continue;
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
  const GroupedGemmProblem problem = problem_of(Pass::forward);
  DeviceInfo device;
  device.num_sms = 1;
  for (const Instance& instance : kInstances) {
    if (!launch::matches(instance, problem)) continue;
    PlanOptions options;
    options.implementation = implementation_name(instance);
    const Support support = launch::takes(instance, {problem, device, options});
    EXPECT_EQ(support.ok, !instance.config.pair) << instance.name;
    const char* const part = instance.config.pair ? "2 SMs or more for a pair of CTAs, not 1" : "";
    EXPECT_NE(support.reason.find(part), std::string::npos) << support.reason;
  }
}

// The limit of the caller counts: a plan that names a pair and allows it one SM is refused.
TEST(Pairs, AreTakenWhenNamedAndNotOnOneSm) {
  const GroupedGemmProblem problem = problem_of(Pass::dgrad);
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  device.compute_capability = 90;
  device.num_sms = 132;
  PlanOptions options;
  options.implementation = "cuda/sm90/bf16_rows_2x128x256_mn";
  const auto support = [&] {
    for (const Candidate& candidate : GroupedGemm::candidates(problem, device, options)) {
      if (candidate.implementation == options.implementation) return candidate.support;
    }
    return Support{true, "no candidate of this name"};
  };
  for (const int num_sms : {0, 2, 3, 131}) {
    options.num_sms = num_sms;
    EXPECT_TRUE(support()) << num_sms;
    EXPECT_EQ(support().reason, "");
  }
  options.num_sms = 1;
  EXPECT_FALSE(support());
  EXPECT_NE(support().reason.find("2 SMs or more"), std::string::npos) << support().reason;
}

}  // namespace
}  // namespace moesaic::backends::cuda
