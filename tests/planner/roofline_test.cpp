// SPDX-License-Identifier: Apache-2.0
// Eqs. 89 to 94 and Table 43 against numbers worked out by hand.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;
constexpr ProductShape kSquare4096 = {.n = 4096, .k = 4096};
constexpr ProductShape kSquare2048 = {.n = 2048, .k = 2048};

/// A device on which times are easy: 1000 FLOP/s and 10 byte/s.
DeviceModel slow_device() {
  DeviceModel device = device_preset("h200");
  device.bf16_flops_per_second.value = 1000;
  device.dram_bytes_per_second.value = 10;
  return device;
}

TEST(Roofline, IntensityOfEquation90) {
  // 2 * 8 * 16 * 32 / (2 * (8 * 32 + 16 * 32 + 8 * 16)) = 8192 / 1792
  EXPECT_DOUBLE_EQ(projection_intensity(8, {.n = 16, .k = 32}), 8192.0 / 1792.0);
  EXPECT_NEAR(projection_intensity(1, kSquare4096), 1.0, 1e-3);  // few rows: about M_e
  EXPECT_THROW(projection_intensity(0, kSquare4096), Error);
  EXPECT_THROW(projection_intensity(8, {.n = 0, .k = 8}), Error);
}

TEST(Roofline, BalanceRowsSolveEquation90) {
  const DeviceModel& device = device_preset("h200");
  EXPECT_NEAR(balance_rows(kSquare4096, device), 229, 0.5);
  EXPECT_NEAR(balance_rows(kSquare2048, device), 258, 0.5);
  for (const ProductShape& product : {kSquare4096, ProductShape{.n = 5120, .k = 2048}}) {
    EXPECT_NEAR(projection_intensity(balance_rows(product, device), product), balance_point(device),
                1e-9);
  }
  // Narrower than twice the balance point no number of rows gets there.
  EXPECT_EQ(balance_rows({.n = 256, .k = 256}, device), 0.0);
}

TEST(Roofline, LayerBoundFromRealCounts) {
  // n = 2, k = 4: an expert of M rows takes 16 M FLOPs and 2 (4 M + 8 + 2 M) = 12 M + 16 bytes.
  const ProductShape product = {.n = 2, .k = 4};
  const LayerRoofline roofline = layer_roofline(Rows{1, 0, 3}, product, slow_device());
  EXPECT_DOUBLE_EQ(roofline.flops, 64);
  EXPECT_DOUBLE_EQ(roofline.bytes, 80);
  EXPECT_DOUBLE_EQ(roofline.intensity, 0.8);
  EXPECT_DOUBLE_EQ(roofline.bound_s, 8.0);
  EXPECT_DOUBLE_EQ(roofline.per_expert_bound_s, 2.8 + 5.2);
  EXPECT_DOUBLE_EQ(roofline.peak_fraction, 64.0 / 8.0 / 1000.0);
  EXPECT_TRUE(roofline.dram_bound);
  EXPECT_EQ(roofline.experts_below_balance, 2);
  const LayerRoofline none = layer_roofline(Rows{0, 0}, product, slow_device());
  EXPECT_EQ(none.bound_s, 0);
  EXPECT_EQ(none.intensity, 0);
  EXPECT_EQ(none.peak_fraction, 0);
}

TEST(Roofline, ExpertsOneByOneAreNeverFasterThanTogether) {
  // One expert above the balance, one far below: together their times overlap.
  const LayerRoofline roofline = layer_roofline(Rows{4000, 16}, kSquare4096, device_preset("h200"));
  EXPECT_GT(roofline.per_expert_bound_s, roofline.bound_s);
  EXPECT_EQ(roofline.experts_below_balance, 1);
  EXPECT_FALSE(roofline.dram_bound);
  EXPECT_DOUBLE_EQ(roofline.peak_fraction, 1.0);
}

TEST(Roofline, Table43RatiosAndEquation93) {
  const FfnPair pair;
  for (const double tokens : {1.0, 64.0, 4096.0}) {
    const FfnTraffic dense = dense_traffic(tokens, pair);
    const FfnTraffic moe = moe_traffic(tokens, pair);
    EXPECT_DOUBLE_EQ(moe.weight_bytes / dense.weight_bytes, 16.0);  // N / K
    EXPECT_DOUBLE_EQ(moe.input_bytes / dense.input_bytes, 4.0);     // K
    EXPECT_DOUBLE_EQ(moe.output_bytes / dense.output_bytes, 4.0);
    EXPECT_DOUBLE_EQ(moe.hidden_bytes / dense.hidden_bytes, 1.0);
  }
  const FfnTraffic dense = dense_traffic(64, pair);
  EXPECT_DOUBLE_EQ(dense.weight_bytes + dense.input_bytes + dense.output_bytes + dense.hidden_bytes,
                   273154048.0 + 136839168.0);  // Q_dense,up + Q_dense,down at T = 64
  const FfnTraffic moe = moe_traffic(64, pair);
  EXPECT_DOUBLE_EQ(moe.weight_bytes + moe.input_bytes + moe.output_bytes + moe.hidden_bytes,
                   4301258752.0 + 2151677952.0);
}

TEST(Fig2, OnePointByHand) {
  // T = 64 on the nominal B300: all four products are bound by DRAM at 8 TB/s.
  const std::vector<double> tokens = {64};
  const RooflinePoint point = fig2_curve(device_preset("b300"), tokens).at(0);
  EXPECT_DOUBLE_EQ(point.flops, 25769803776.0);  // 6 * 64 * 4 * 4096^2
  EXPECT_NEAR(point.dense_seconds, 409993216.0 / 8e12, 1e-16);
  EXPECT_NEAR(point.moe_seconds, 6452936704.0 / 8e12, 1e-16);
  EXPECT_NEAR(point.dense_fraction, 0.22348, 1e-5);
  EXPECT_NEAR(point.moe_fraction, 0.014199, 1e-6);
}

TEST(Fig2, EachProductTakesItsOwnMaximum) {
  // d = h = K = N = 1 on 1000 FLOP/s and 10 byte/s, T = 1: up 2 (1 + 2 + 2) bytes, down 2 * 3.
  const std::vector<double> tokens = {1};
  const FfnPair unit = {.experts = 1, .top_k = 1, .d = 1, .h = 1};
  DeviceModel device = slow_device();
  device.bf16_flops_per_second.value = 3;
  // up: 4 / 3 s of compute against 1.0 s of DRAM; down: 2 / 3 s against 0.6 s.
  EXPECT_DOUBLE_EQ(fig2_curve(device, tokens, unit).at(0).dense_seconds, 2.0);
  device.bf16_flops_per_second.value = 1000;
  EXPECT_DOUBLE_EQ(fig2_curve(device, tokens, unit).at(0).dense_seconds, 1.6);
  device.bf16_flops_per_second.value = 3.5;
  // up 4 / 3.5 s of compute, down 0.6 s of DRAM: the maxima are taken apart, then added.
  EXPECT_DOUBLE_EQ(fig2_curve(device, tokens, unit).at(0).dense_seconds, 4 / 3.5 + 0.6);
}

TEST(Fig2, CurvesRiseToTheCommonCeiling) {
  std::vector<double> tokens;
  for (double count = 1; count <= 1 << 20; count *= 2) tokens.push_back(count);
  const std::vector<RooflinePoint> curve = fig2_curve(device_preset("b300"), tokens);
  ASSERT_EQ(curve.size(), tokens.size());
  for (std::size_t i = 0; i < curve.size(); ++i) {
    EXPECT_LE(curve[i].moe_fraction, curve[i].dense_fraction + 1e-12);
    EXPECT_LE(curve[i].dense_fraction, 1.0 + 1e-12);
    if (i == 0) continue;
    EXPECT_GE(curve[i].dense_fraction, curve[i - 1].dense_fraction - 1e-12);
    EXPECT_GE(curve[i].moe_fraction, curve[i - 1].moe_fraction - 1e-12);
  }
  EXPECT_NEAR(curve.front().moe_fraction / curve.front().dense_fraction, 4.0 / 64.0, 1e-3);
  EXPECT_NEAR(curve.back().dense_fraction, 1.0, 1e-12);
  EXPECT_NEAR(curve.back().moe_fraction, 1.0, 1e-12);
  // Dense is at its ceiling long before routed experts are.
  EXPECT_GT(curve[10].dense_fraction, 0.99);
  EXPECT_LT(curve[10].moe_fraction, 0.25);
}

TEST(Fig2, RefusesWhatHasNoCurve) {
  const DeviceModel& device = device_preset("b300");
  EXPECT_THROW(fig2_curve(device, std::vector<double>{0}), Error);
  EXPECT_THROW(fig2_curve(device, std::vector<double>{1}, {.experts = 0}), Error);
  EXPECT_TRUE(fig2_curve(device, {}).empty());
}

}  // namespace
}  // namespace moesaic::planner
