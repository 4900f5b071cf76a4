// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert through the C ABI: one expert of constant matrices, worked out by hand.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "c_api/host_memory.hpp"
#include "moesaic/c_api.h"

namespace moesaic::testing {
namespace {

constexpr std::int64_t kRows = 4, kWidth = 8, kHidden = 8;

double silu(double gate) { return gate / (1 + std::exp(-gate)); }
double silu_slope(double gate) {
  const double sigmoid = 1 / (1 + std::exp(-gate));
  return sigmoid * (1 + gate * (1 - sigmoid));
}

/// Four rows, the last of them tail. u = 8 * 0.5 * 0.25 = 1 everywhere, y = 8 * 0.125 * up *
/// silu(gate) and dh = 8 * 0.125 = 1; results are 9 before.
class ExpertMlp : public ::testing::Test {
 protected:
  void SetUp() override {
    problem_.format = moesaic_format_f32;
    problem_.order = moesaic_up_gate;
    problem_.wgrad_dtype = moesaic_f32;
    problem_.num_experts = 1;
    problem_.max_rows = kRows;
    problem_.d = kWidth;
    problem_.h = kHidden;
    offs_[0] = 3;
    forward_.x = backward_.x = x_.view();
    forward_.w_up_gate = backward_.w_up_gate = w_up_gate_.view();
    forward_.w_down = backward_.w_down = w_down_.view();
    forward_.offs = backward_.offs = offs_.view();
    forward_.u = backward_.u = u_.view();
    forward_.y = y_.view();
    backward_.dy = dy_.view();
    backward_.dx = dx_.view();
    backward_.dw_up_gate = dw_up_gate_.view();
    backward_.dw_down = dw_down_.view();
  }
  void TearDown() override { moesaic_expert_mlp_destroy(plan_); }
  void create() {
    ASSERT_EQ(moesaic_expert_mlp_create(&problem_, kCpu, nullptr, &plan_), moesaic_ok)
        << moesaic_last_error();
  }
  int forward() {
    const Scratch scratch(moesaic_expert_mlp_forward_workspace_bytes(plan_));
    return moesaic_expert_mlp_forward(plan_, &forward_, scratch.get(), nullptr);
  }
  int backward() {
    const Scratch scratch(moesaic_expert_mlp_backward_workspace_bytes(plan_));
    return moesaic_expert_mlp_backward(plan_, &backward_, scratch.get(), nullptr);
  }
  /// `problem_`, spoilt, gives no plan but this message.
  void expect_no_plan(const char* message) {
    moesaic_expert_mlp* none = nullptr;
    EXPECT_EQ(moesaic_expert_mlp_create(&problem_, kCpu, nullptr, &none), moesaic_invalid_argument);
    EXPECT_STREQ(moesaic_last_error(), message);
  }

  Array<float> x_{{kRows, kWidth}, 0.5F}, dy_{{kRows, kWidth}, 1.0F};
  Array<float> w_up_gate_{{1, 2 * kHidden, kWidth}, 0.25F}, w_down_{{1, kWidth, kHidden}, 0.125F};
  Array<float> u_{{kRows, 2 * kHidden}}, y_{{kRows, kWidth}, 9.0F}, dx_{{kRows, kWidth}, 9.0F};
  Array<float> dw_up_gate_{{1, 2 * kHidden, kWidth}, 9.0F}, dw_down_{{1, kWidth, kHidden}, 9.0F};
  Array<std::int32_t> offs_{std::initializer_list<std::int64_t>{1}};
  moesaic_expert_mlp_forward_args forward_{};
  moesaic_expert_mlp_backward_args backward_{};
  moesaic_expert_mlp_problem problem_{};
  moesaic_expert_mlp* plan_ = nullptr;
};

TEST_F(ExpertMlp, ForwardAndBackwardAgreeWithTheFormula) {
  create();
  EXPECT_EQ(std::string(moesaic_expert_mlp_implementation(plan_)).find("cpu/"), 0U);
  ASSERT_EQ(forward(), moesaic_ok) << moesaic_last_error();
  EXPECT_NEAR(y_[0], silu(1), 1e-6);
  EXPECT_EQ(u_[0], 1.0F);
  EXPECT_EQ(y_[3 * kWidth], 9.0F) << "the tail row was written";

  ASSERT_EQ(backward(), moesaic_ok) << moesaic_last_error();
  EXPECT_NEAR(dw_down_[0], 3 * silu(1), 1e-5);           // three rows of dy * h
  EXPECT_NEAR(dw_up_gate_[0], 3 * 0.5 * silu(1), 1e-5);  // the first half is up
  EXPECT_NEAR(dw_up_gate_[kHidden * kWidth], 3 * 0.5 * silu_slope(1), 1e-5);
  EXPECT_NEAR(dx_[0], 8 * 0.25 * (silu(1) + silu_slope(1)), 1e-5);
  EXPECT_EQ(dx_[3 * kWidth], 9.0F) << "the tail row was written";
}

/// Rows with weights 1, 2, 3: what they scale, and their gradient, which they do not.
TEST_F(ExpertMlp, RowWeights) {
  problem_.row_weights = 1;
  problem_.tail = moesaic_tail_zero;
  create();
  EXPECT_EQ(forward(), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("row_weights: expected f32 [4]"), 0U);
  Array<float> weights({kRows}), gradient({kRows}, 9.0F);
  weights.set({1, 2, 3, NAN});
  forward_.row_weights = backward_.row_weights = weights.view();
  ASSERT_EQ(forward(), moesaic_ok) << moesaic_last_error();
  for (int row = 0; row < 3; ++row) {
    EXPECT_NEAR(y_[row * kWidth], (row + 1) * silu(1), 1e-6);
  }
  EXPECT_EQ(y_[3 * kWidth], 0.0F) << "the tail row";

  backward_.dw_up_gate = {};
  backward_.drow_weights = gradient.view();
  ASSERT_EQ(backward(), moesaic_ok) << moesaic_last_error();
  EXPECT_NEAR(dw_down_[0], (1 + 2 + 3) * silu(1), 1e-5);
  for (int row = 0; row < 3; ++row) {
    EXPECT_NEAR(dx_[row * kWidth], (row + 1) * 8 * 0.25 * (silu(1) + silu_slope(1)), 1e-5);
    EXPECT_NEAR(gradient[row], 8 * silu(1), 1e-5);  // dy · y of a weight of one
  }
  EXPECT_EQ(gradient[3], 0.0F) << "the tail row";

  problem_.row_weights = 2;
  expect_no_plan("row_weights: expected 0 or 1, got 2");
}

/// Rows 1, none and 0 of two rows of x.
TEST_F(ExpertMlp, RowsOfXByAnIndex) {
  problem_.x_rows = moesaic_indexed;
  create();
  EXPECT_EQ(moesaic_expert_mlp_copies_x(plan_), 1);
  EXPECT_EQ(moesaic_expert_mlp_copies_x(nullptr), 0);
  Array<float> x({2, kWidth}, 0.5F);
  for (std::int64_t i = kWidth; i < 2 * kWidth; ++i) x[i] = 1;  // whose u is 2
  forward_.x = backward_.x = x.view();
  EXPECT_EQ(forward(), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("x_rows: expected i32 [4]"), 0U);
  Array<std::int32_t> rows({kRows});
  rows.set({1, -1, 0, 77});
  forward_.x_rows = backward_.x_rows = rows.view();
  ASSERT_EQ(forward(), moesaic_ok) << moesaic_last_error();
  EXPECT_NEAR(y_[0], 2 * silu(2), 1e-5);
  EXPECT_EQ(y_[kWidth], 0.0F) << "of no row of x";
  EXPECT_NEAR(y_[2 * kWidth], silu(1), 1e-6);

  backward_.dx = backward_.dw_down = {};
  ASSERT_EQ(backward(), moesaic_ok) << moesaic_last_error();
  EXPECT_NEAR(dw_up_gate_[0], silu(2) * 1.0 + silu(1) * 0.5, 1e-5);

  problem_.x_rows = 3;
  expect_no_plan("x_rows: expected 0 to 2, got 3");
}

TEST_F(ExpertMlp, OrderHasNoDefault) {
  for (const std::int32_t wrong : {0, 4, -1}) {
    problem_.order = wrong;
    EXPECT_EQ(moesaic_expert_mlp_create(&problem_, kCpu, nullptr, &plan_),
              moesaic_invalid_argument);
    EXPECT_EQ(std::string(moesaic_last_error()).find("order: expected"), 0U);
  }
}

TEST_F(ExpertMlp, NamesWhatIsMissing) {
  create();
  forward_ = {};
  EXPECT_EQ(forward(), moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("x: expected"), 0U) << moesaic_last_error();
  const Scratch scratch(moesaic_expert_mlp_backward_workspace_bytes(plan_));
  EXPECT_EQ(moesaic_expert_mlp_backward(plan_, nullptr, scratch.get(), nullptr),
            moesaic_invalid_argument);
  EXPECT_STREQ(moesaic_last_error(), "args: expected a pointer, got null");
}

}  // namespace
}  // namespace moesaic::testing
