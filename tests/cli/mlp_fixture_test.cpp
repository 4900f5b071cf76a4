// SPDX-License-Identifier: Apache-2.0
// The layers of `verify` are as hostile as they claim, and what is wrong in a result is found: an
// index that was not followed, a weight, a row of nobody, a row behind the last.
#include "tools/moesaic/mlp_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/moesaic/operands.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kRows = 30, kRouted = 25;

TEST(MakeXRows, ReversedNamesEachRowOnce) {
  const std::vector<std::int32_t> x_rows = make_x_rows(XOrder::reversed, kRows, kRouted, 1);
  EXPECT_EQ(num_x_rows(XOrder::reversed, kRouted), 50);
  for (std::size_t row = 0; row < kRouted; ++row) {
    EXPECT_EQ(x_rows[row], 2 * (24 - static_cast<std::int32_t>(row)));
  }
}

TEST(MakeXRows, RepeatedNamesFewRowsAndNoOddOne) {
  const std::vector<std::int32_t> x_rows = make_x_rows(XOrder::repeated, kRows, kRouted, 1);
  const std::int64_t tokens = num_x_rows(XOrder::repeated, kRouted);
  std::map<std::int32_t, int> times;
  for (std::size_t row = 0; row < kRouted; ++row) {
    ASSERT_TRUE(0 <= x_rows[row] && x_rows[row] < tokens && x_rows[row] % 2 == 0) << x_rows[row];
    ++times[x_rows[row]];
  }
  EXPECT_LE(times.size(), 6U);
  EXPECT_FALSE(std::is_sorted(x_rows.begin(), x_rows.begin() + kRouted));
}

TEST(MakeXRows, EveryThirdIsOutside) {
  const std::vector<std::int32_t> x_rows = make_x_rows(XOrder::outside, kRows, kRouted, 1);
  const std::int64_t tokens = num_x_rows(XOrder::outside, kRouted);
  for (std::size_t row = 0; row < kRouted; ++row) {
    EXPECT_EQ(x_rows[row] < 0 || x_rows[row] >= tokens, row % 3 == 1) << row;
  }
}

TEST(MakeXRows, TheTailNamesANanRowOrNone) {
  for (const XOrder order : {XOrder::reversed, XOrder::repeated, XOrder::outside}) {
    const std::vector<std::int32_t> x_rows = make_x_rows(order, kRows, kRouted, 1);
    const auto last = static_cast<std::int32_t>(num_x_rows(order, kRouted) - 1);
    ASSERT_EQ(x_rows.size(), static_cast<std::size_t>(kRows));
    for (std::size_t row = kRouted; row < kRows; ++row) {
      EXPECT_TRUE(row % 2 == 0 ? x_rows[row] == last : x_rows[row] < 0 || x_rows[row] > last);
    }
  }
}

ExpertMlpProblem problem(XOrder order) {
  return {.format = Format::f32,
          .num_experts = 3,
          .max_rows = kRows,
          .d = 16,
          .h = 8,
          .order = UpGateOrder::up_gate,
          .wgrad_dtype = DType::f32,
          .row_weights = true,
          .x_rows = order == XOrder::in_order ? XRows::in_order : XRows::indexed};
}

MlpFixture make(XOrder order) { return {problem(order), {9, 9, 25}, order, 3}; }

TEST(MlpFixture, RowsOfNobodyAreNan) {
  MlpFixture indexed = make(XOrder::repeated);
  const HostTensor& x = indexed.tensors().x;
  ASSERT_EQ(x.rows(), num_x_rows(XOrder::repeated, kRouted));
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    EXPECT_EQ(std::isnan(x.get(row, 5)), row % 2 == 1) << row;
  }
  MlpFixture in_order = make(XOrder::in_order);
  EXPECT_TRUE(in_order.tensors().x_rows.empty());
  for (std::int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::isnan(in_order.tensors().x.get(row, 5)), row >= kRouted) << row;
    EXPECT_EQ(std::isnan(in_order.tensors().dy.get(row, 5)), row >= kRouted) << row;
  }
}

TEST(MlpFixture, WeightsAreOfEitherSignAndZero) {
  MlpFixture fixture = make(XOrder::in_order);
  const HostTensor& weights = fixture.tensors().row_weights;
  int negative = 0, positive = 0;
  for (std::int64_t row = 0; row < kRouted; ++row) {
    EXPECT_EQ(weights.get(row, 0) == 0, row % 5 == 2) << row;
    negative += weights.get(row, 0) < 0 ? 1 : 0;
    positive += weights.get(row, 0) > 0 ? 1 : 0;
  }
  EXPECT_GT(negative, 3);
  EXPECT_GT(positive, 3);
  for (std::int64_t row = kRouted; row < kRows; ++row) {
    EXPECT_TRUE(std::isnan(weights.get(row, 0))) << row;
  }
}

/// Runs the layer, with its tensors changed before and after, and returns what is then found.
CheckResult found(XOrder order, const std::function<void(MlpTensors&)>& before,
                  const std::function<void(MlpTensors&)>& after) {
  MlpFixture fixture = make(order);
  const Site site{Device{}};
  const ExpertMlp mlp = ExpertMlp::plan(problem(order), query_device(Device{}),
                                        {.implementation = "cpu/reference/grouped"});
  const SiteWorkspace workspace(workspace_bytes(mlp), site.stream());
  if (before) before(fixture.tensors());
  fixture.run(mlp, workspace.get(), site);
  if (after) after(fixture.tensors());
  return fixture.check();
}

TEST(MlpFixture, NothingIsFoundInARightResult) {
  for (const XOrder order :
       {XOrder::in_order, XOrder::reversed, XOrder::repeated, XOrder::outside}) {
    const CheckResult check = found(order, nullptr, nullptr);
    EXPECT_EQ(check.mismatches, 0);
    EXPECT_GT(check.elements, 0);
  }
}

/// As if row 3 had been taken from elsewhere.
TEST(MlpFixture, AnIndexThatWasNotFollowedIsFound) {
  const std::int32_t last = static_cast<std::int32_t>(num_x_rows(XOrder::repeated, kRouted)) - 1;
  std::int32_t right = 0;
  for (const std::int32_t wrong : {std::int32_t{-1}, last, last + 1}) {
    const CheckResult check = found(
        XOrder::repeated,
        [&](MlpTensors& t) {
          right = t.x_rows[3];
          t.x_rows[3] = wrong;
        },
        [&](MlpTensors& t) { t.x_rows[3] = right; });
    ASSERT_TRUE(check.first.has_value()) << wrong;
    EXPECT_EQ(check.first->tensor, "u");
    EXPECT_EQ(check.first->row, 3);
    EXPECT_EQ(std::isnan(check.first->got), wrong == last);
  }
}

/// As if a row outside of x had been some row of it.
TEST(MlpFixture, AnIndexOutsideThatWasFollowedIsFound) {
  const CheckResult check = found(
      XOrder::outside, [](MlpTensors& t) { t.x_rows[4] = 0; },
      [](MlpTensors& t) { t.x_rows[4] = -1; });
  ASSERT_TRUE(check.first.has_value());
  EXPECT_EQ(check.first->row, 4);
}

TEST(MlpFixture, AWrongWeightIsFound) {
  for (const std::int64_t row : {std::int64_t{2}, std::int64_t{3}}) {  // zero, and another
    float right = 0;
    const CheckResult check = found(
        XOrder::in_order,
        [&](MlpTensors& t) {
          right = t.row_weights.get(row, 0);
          t.row_weights.set(row, 0, 1.5F);
        },
        [&](MlpTensors& t) { t.row_weights.set(row, 0, right); });
    ASSERT_TRUE(check.first.has_value());
    EXPECT_EQ(check.first->tensor, "y");
    EXPECT_EQ(check.first->row, row);
  }
}

TEST(MlpFixture, AWrongGradientOfAWeightIsFound) {
  for (const std::int64_t row : {std::int64_t{2}, kRouted}) {  // of a row, and behind all rows
    const CheckResult check =
        found(XOrder::in_order, nullptr, [&](MlpTensors& t) { t.drow_weights.set(row, 0, 100); });
    ASSERT_TRUE(check.first.has_value());
    EXPECT_EQ(check.first->tensor, "drow_weights");
    EXPECT_EQ(check.first->row, row);
    EXPECT_EQ(check.mismatches, 1);
  }
}

TEST(MlpFixture, WhatIsWrittenBehindAllRowsIsFound) {
  const CheckResult check =
      found(XOrder::repeated, nullptr, [](MlpTensors& t) { t.u.set(kRouted, 1, 0); });
  ASSERT_TRUE(check.first.has_value());
  EXPECT_EQ(check.first->tensor, "u");
  EXPECT_EQ(check.first->row, kRouted);
}

TEST(MlpFixture, UntouchedMeansAllOfEveryOutput) {
  MlpFixture fixture = make(XOrder::repeated);
  fixture.reset();
  EXPECT_EQ(fixture.check_untouched().mismatches, 0);
  for (HostTensor* output : {&fixture.tensors().y, &fixture.tensors().drow_weights,
                             &fixture.tensors().dw_down, &fixture.tensors().u}) {
    output->set(0, 0, 1);
    EXPECT_EQ(fixture.check_untouched().mismatches, 1);
    fixture.reset();
    EXPECT_EQ(fixture.check_untouched().mismatches, 0);
  }
}

/// The CPU behind mirrors, as on a device: weights and their gradient travel too.
TEST(MlpFixture, RunsApartFromTheHost) {
  MlpFixture fixture = make(XOrder::outside);
  const Site site(Device{}, CpuMemory::apart);
  const ExpertMlp mlp = ExpertMlp::plan(problem(XOrder::outside), query_device(Device{}));
  const SiteWorkspace workspace(workspace_bytes(mlp), site.stream());
  fixture.reset();
  fixture.run(mlp, workspace.get(), site);
  const CheckResult check = fixture.check();
  EXPECT_EQ(check.mismatches, 0) << check.first->tensor;
}

}  // namespace
}  // namespace moesaic::cli
