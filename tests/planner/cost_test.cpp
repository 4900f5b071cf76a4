// SPDX-License-Identifier: Apache-2.0
// The four terms by hand, their bounds, and which tile they lead to.
#include "planner/cost.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "moesaic/error.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;

// small-2, balanced: 8 local experts of 12K rows, up and gate together.
const Rows kSmall2(8, 12288);
constexpr CostInput kUpGate = {.product = {.n = 5120, .k = 2048}, .d = 2048, .ep = 8};
constexpr double kWeightBytes = 2.0 * 5120 * 2048;

std::vector<CostTerms> costs_of(const Rows& counts, const CostInput& input, const char* device) {
  std::vector<CostTerms> costs;
  for (const std::int64_t tile : {8, 16, 32, 64, 128}) {
    costs.push_back(cost_terms(counts, tile, input, device_preset(device)));
  }
  return costs;
}

TEST(CostTerms, SmallTwoByHand) {
  const CostTerms cost = cost_terms(kSmall2, 128, kUpGate, device_preset("h200"));
  EXPECT_DOUBLE_EQ(cost.padded_flops, 2.0 * 98304 * 5120 * 2048);
  EXPECT_DOUBLE_EQ(cost.mma_s, 2.0 * 98304 * 5120 * 2048 / 989e12);
  EXPECT_DOUBLE_EQ(cost.weight_once_bytes, 8 * kWeightBytes);
  EXPECT_DOUBLE_EQ(cost.weight_reread_bytes, 768 * kWeightBytes);
  EXPECT_DOUBLE_EQ(cost.weight_once_s, 8 * kWeightBytes / 4.8e12);
  EXPECT_DOUBLE_EQ(cost.weight_reread_s, 768 * kWeightBytes / 4.8e12);
  EXPECT_DOUBLE_EQ(cost.weight_s, 768 * kWeightBytes / 9.0e12);
  EXPECT_EQ(cost.launches, 1);
  EXPECT_EQ(cost.tiles, 768 * 20);
  EXPECT_DOUBLE_EQ(cost.launch_s, 4e-6 + 117 * 200 / 1.7e9);  // ceil(15360 / 132) rounds
  // 98,304 rows of 4 KiB, seven eighths of them remote, there and back.
  EXPECT_DOUBLE_EQ(cost.remote_bytes, 98304.0 * 4096 * 7 / 8 * 2);
  EXPECT_DOUBLE_EQ(cost.communication_s, 98304.0 * 4096 * 7 / 8 * 2 / 450e9);
  EXPECT_DOUBLE_EQ(cost.kernel_s(), cost.mma_s + cost.launch_s);
}

TEST(CostTerms, WeightTermLiesBetweenItsBounds) {
  for (const Rows& counts : {kSmall2, Rows(32, 3), Rows{0, 1, 5000, 17}}) {
    for (const CostTerms& cost : costs_of(counts, kUpGate, "h100")) {
      EXPECT_GE(cost.weight_s, cost.weight_once_s);
      EXPECT_LE(cost.weight_s, cost.weight_reread_s);
      EXPECT_GE(cost.weight_reread_s, cost.weight_once_s);
    }
  }
}

TEST(CostTerms, SmallerTilesPadLessAndRereadMore) {
  const std::vector<CostTerms> costs = costs_of({17, 100, 1, 250}, kUpGate, "h200");
  for (std::size_t i = 1; i < costs.size(); ++i) {
    EXPECT_LE(costs[i - 1].padded_flops, costs[i].padded_flops);
    EXPECT_GE(costs[i - 1].weight_reread_bytes, costs[i].weight_reread_bytes);
    EXPECT_EQ(costs[i - 1].weight_once_bytes, costs[i].weight_once_bytes);
    EXPECT_EQ(costs[i - 1].communication_s, costs[i].communication_s);
  }
}

TEST(CostTerms, TheKernelIsNeverBelowTheRoofline) {
  for (const Rows& counts : {Rows(8, 125000), kSmall2, Rows{1, 0, 0}, Rows(64, 3), Rows{0, 0}}) {
    for (const ProductShape& product :
         {ProductShape{.n = 128, .k = 256}, ProductShape{.n = 5120, .k = 2048},
          ProductShape{.n = 8, .k = 8}}) {
      for (const DeviceModel& device : device_presets()) {
        const double bound_s = layer_roofline(counts, product, device).bound_s;
        for (const std::int64_t tile : {1, 8, 128}) {
          const CostTerms cost = cost_terms(counts, tile, {.product = product}, device);
          EXPECT_GE(cost.kernel_s(), bound_s) << device.name << ", tile " << tile;
        }
      }
    }
  }
  // By hand: 10^6 rows of 256 + 128 elements and eight weights, over DRAM once.
  const CostTerms narrow =
      cost_terms(Rows(8, 125000), 128, {.product = {.n = 128, .k = 256}}, device_preset("h200"));
  EXPECT_DOUBLE_EQ(narrow.operand_bytes, 2.0 * (1e6 * 384 + 8 * 128 * 256));
  EXPECT_DOUBLE_EQ(narrow.kernel_s(), narrow.operand_bytes / 4.8e12 + narrow.launch_s);
}

TEST(CostTerms, OneRankAndNoRows) {
  CostInput alone = kUpGate;
  alone.ep = 1;
  alone.d = 0;  // nothing travels, so no width is asked for
  EXPECT_EQ(cost_terms(kSmall2, 64, alone, device_preset("h200")).communication_s, 0.0);
  const CostTerms none = cost_terms(Rows(8, 0), 64, kUpGate, device_preset("h200"));
  EXPECT_EQ(none.mma_s + none.weight_s + none.communication_s, 0.0);
  EXPECT_DOUBLE_EQ(none.launch_s, 4e-6);  // the host cannot know that there is nothing to do
}

TEST(CostTerms, Refusals) {
  const DeviceModel& device = device_preset("h200");
  EXPECT_THROW(cost_terms(kSmall2, 0, kUpGate, device), Error);
  EXPECT_THROW(cost_terms({}, 8, kUpGate, device), Error);
  EXPECT_THROW(cost_terms(kSmall2, 8, {.product = {.n = 0, .k = 8}}, device), Error);
  EXPECT_THROW(cost_terms(kSmall2, 8, {.product = {.n = 8, .k = 8}, .ep = 0}, device), Error);
  EXPECT_THROW(cost_terms(kSmall2, 8, {.product = {.n = 8, .k = 8}, .ep = 2}, device), Error);
}

TEST(PaddedBatch, ReadsTheWeightsOfEmptyExpertsToo) {
  const Rows counts = {64, 0, 0, 0};
  const CapacityLedger ledger = capacity_ledger(counts, Capacity{});
  ASSERT_EQ(ledger.capacity, 20);
  ASSERT_EQ(ledger.overflow_rows, 44);
  ASSERT_EQ(ledger.overflowing_experts, 1);
  // 80 rows of the batch and 44 after it, for which a weight is read again. Five row tiles of 20
  // columns: 100 tiles, one round.
  const double bytes = 5 * kWeightBytes + 124 * 2.0 * (5120 + 2048);
  EXPECT_DOUBLE_EQ(padded_batch_seconds(ledger, 4, kUpGate, device_preset("h200")),
                   bytes / 4.8e12 + 4e-6 + 200 / 1.7e9);
}

TEST(SuggestTile, ManyRowsWantLargeTilesFewRowsDoNot) {
  EXPECT_EQ(suggest_tile(costs_of(kSmall2, kUpGate, "h200")).tile, 128);
  // One row each on 64 experts: every tile reads each weight once; the least padding is taken.
  EXPECT_EQ(suggest_tile(costs_of(Rows(64, 1), kUpGate, "h200")).tile, 8);
  // 33 rows each: five tiles of 8 reread from L2 for longer than DRAM takes to read once.
  const TileSuggestion some = suggest_tile(costs_of(Rows(32, 33), kUpGate, "h200"));
  EXPECT_GT(some.tile, 8);
  EXPECT_LT(some.tile, 128);
}

TEST(SuggestTile, SlackPaddingAndTies) {
  CostTerms a{.tile = 8, .mma_s = 1.000, .padded_flops = 100};
  CostTerms b{.tile = 16, .mma_s = 0.995, .padded_flops = 110};
  CostTerms c{.tile = 32, .mma_s = 1.100, .padded_flops = 90};
  EXPECT_EQ(suggest_tile(std::vector{a, b, c}).tile, 8);  // within 1 %, less padding
  EXPECT_NE(suggest_tile(std::vector{a, b, c}).reason.find("within 1 % of the fastest"),
            std::string::npos);
  a.mma_s = 1.02;
  EXPECT_EQ(suggest_tile(std::vector{a, b, c}).tile, 16);
  EXPECT_EQ(suggest_tile(std::vector{a, b, c}).reason.find("within"), std::string::npos);
  a.mma_s = 0.995;
  a.padded_flops = 110;
  EXPECT_EQ(suggest_tile(std::vector{a, b, c}).tile, 16);  // a tie goes to the larger tile
  EXPECT_EQ(suggest_tile(std::vector{b, a, c}).tile, 16);
  EXPECT_THROW(suggest_tile({}), Error);
}

TEST(SuggestTile, ReasonNamesBothCandidates) {
  const std::string reason = suggest_tile(costs_of(kSmall2, kUpGate, "h200")).reason;
  EXPECT_EQ(reason.find("tile 128: "), 0u) << reason;
  EXPECT_NE(reason.find("next tile 64: "), std::string::npos) << reason;
  EXPECT_NE(reason.find("not a measurement"), std::string::npos) << reason;
}

}  // namespace
}  // namespace moesaic::planner
