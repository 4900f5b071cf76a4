// SPDX-License-Identifier: Apache-2.0
// The whole plan of a layer: parts agree with each other, options are checked, and it is quick.
#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;

PlanOptions with_cost() {
  PlanOptions options;
  options.cost = CostInput{.product = {.n = 5120, .k = 2048}, .d = 2048, .ep = 8};
  return options;
}

TEST(PlanLayer, TheReportsDrawing) {
  const LayerPlan plan = plan_layer(Rows{1, 4, 3, 2});
  EXPECT_EQ(plan.offsets, (Rows{1, 5, 8, 10}));
  EXPECT_EQ(plan.capacity.capacity, 4);
  EXPECT_DOUBLE_EQ(plan.capacity.rho_pad, 0.375);
  ASSERT_EQ(plan.tiles.size(), 5u);
  EXPECT_EQ(plan.tiles[0].padded_rows, 32);
  EXPECT_EQ(plan.reference_tile().tile, 128);
  EXPECT_TRUE(plan.costs.empty());
  EXPECT_FALSE(plan.roofline.has_value());
  EXPECT_FALSE(plan.suggested.has_value());
  EXPECT_EQ(plan.padded_batch_s, 0.0);
}

TEST(PlanLayer, ThreeLedgersStayApart) {
  const LayerPlan plan = plan_layer(Rows{17, 17, 17, 17, 16, 16, 16, 16});
  EXPECT_EQ(plan.tiles[2].padding_rows, 124);                  // tail, tile 32
  EXPECT_EQ(plan.capacity.executed_rows - 132, 8 * 21 - 132);  // capacity, C = ceil(20.625)
  ASSERT_EQ(plan.alignments.size(), 3u);
  EXPECT_EQ(plan.alignments[0].name, "fp8");
  EXPECT_EQ(plan.alignments[0].padding_rows, 60);
  EXPECT_EQ(plan.alignments[2].alignment, 128);
  EXPECT_EQ(plan.alignments[2].padding_rows, 8 * 128 - 132);
}

TEST(PlanLayer, SuggestionIndexesTilesAndCosts) {
  PlanOptions options = with_cost();
  options.tiles = {128, 8, 64};  // not sorted: the index must follow the caller's order
  const LayerPlan plan = plan_layer(Rows(8, 12288), options);
  ASSERT_TRUE(plan.suggested.has_value());
  EXPECT_EQ(*plan.suggested, 0u);
  EXPECT_EQ(plan.reference_tile().tile, 128);
  ASSERT_EQ(plan.costs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(plan.costs[i].tile, plan.tiles[i].tile);
  EXPECT_FALSE(plan.suggestion_reason.empty());
  ASSERT_TRUE(plan.roofline.has_value());
  EXPECT_GE(plan.costs[0].kernel_s(), plan.roofline->bound_s);
  // A padded batch executes 1.25 times the rows and nothing else changes here.
  EXPECT_NEAR(plan.padded_batch_s / plan.costs[0].kernel_s(), 1.25, 0.01);
}

TEST(PlanLayer, DeviceByName) {
  PlanOptions options = with_cost();
  const LayerPlan h200 = plan_layer(Rows(8, 12288), options);
  options.device = "b300";
  const LayerPlan b300 = plan_layer(Rows(8, 12288), options);
  EXPECT_DOUBLE_EQ(h200.costs[4].mma_s / b300.costs[4].mma_s, 2250.0 / 989.0);
  DeviceModel half = device_preset("b300");
  half.bf16_flops_per_second.value /= 2;
  EXPECT_DOUBLE_EQ(plan_layer(Rows(8, 12288), options, half).costs[4].mma_s,
                   2 * b300.costs[4].mma_s);
  options.device = "b301";
  EXPECT_THROW(plan_layer(Rows(8, 12288), options), Error);
}

TEST(PlanLayer, NoRowsIsDense) {
  const LayerPlan plan = plan_layer(Rows(256, 0), with_cost());
  EXPECT_TRUE(plan.dense());
  EXPECT_FALSE(plan.suggested.has_value());
  EXPECT_EQ(plan.offsets.back(), 0);
  EXPECT_EQ(plan.reference_tile().padding_fraction, 0.0);
  EXPECT_EQ(plan.capacity.capacity, 0);
}

TEST(PlanLayer, FourThousandExperts) {
  Rows counts;
  for (std::int64_t expert = 0; expert < 4096; ++expert) counts.push_back(expert % 5);
  const LayerPlan plan = plan_layer(counts, with_cost());
  EXPECT_EQ(plan.load.experts, 4096);
  EXPECT_EQ(plan.load.useful_rows, 819 * 10);  // expert 4095 has no row
  EXPECT_EQ(plan.load.active_experts, 819 * 4);
  EXPECT_EQ(plan.tiles[0].padded_rows, 819 * 4 * 8);
  EXPECT_EQ(plan.offsets.back(), plan.load.useful_rows);
}

TEST(PlanLayer, RefusesBadOptions) {
  for (const Rows& tiles : {Rows{}, Rows{0}, Rows{8, -1}, Rows{8, 16, 8}}) {
    PlanOptions options;
    options.tiles = tiles;
    try {
      plan_layer(Rows{1, 2}, options);
      FAIL() << "accepted " << tiles.size() << " bad tiles";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("--tiles"), 0u) << error.what();
    }
  }
  PlanOptions options;
  options.alignments = {"fp4"};
  EXPECT_THROW(plan_layer(Rows{1, 2}, options), Error);
  EXPECT_THROW(plan_layer({}), Error);
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  EXPECT_THROW(plan_layer(Rows{kBig, kBig}), Error);
}

TEST(PlanLayer, SixtyOneLayersOf256ExpertsTakeMilliseconds) {
  Rows counts;
  for (std::int64_t expert = 0; expert < 256; ++expert) counts.push_back(expert * 7919 % 1000);
  const std::clock_t start = std::clock();  // CPU time: a busy machine does not slow it
  double sum = 0;
  for (int layer = 0; layer < 61; ++layer) {
    counts[0] = layer;
    sum += plan_layer(counts, with_cost()).load.effective_experts;
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_GT(sum, 61.0);
  EXPECT_LT(seconds, 0.1);
}

}  // namespace
}  // namespace moesaic::planner
