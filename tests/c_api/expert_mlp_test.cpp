// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert through the C ABI: one expert of constant matrices, worked out by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "moesaic/c_api.h"

namespace {

constexpr moesaic_device kCpu = {moesaic_cpu, 0};
constexpr std::int64_t kRows = 4, kWidth = 8, kHidden = 8;

/// A dense 64-byte aligned matrix or stack with one value everywhere.
struct Constant {
  Constant(std::int64_t experts, std::int64_t rows, std::int64_t columns, float value)
      : storage(static_cast<std::size_t>(experts * rows * columns) + 16, value) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
    view.data = storage.data() + (64 - address % 64) % 64 / sizeof(float);
    view.dtype = moesaic_f32;
    view.rank = experts > 0 ? 3 : 2;
    const int first = view.rank - 2;
    view.shape[0] = experts;
    view.stride[0] = rows * columns;
    view.shape[first] = rows;
    view.shape[first + 1] = columns;
    view.stride[first] = columns;
    view.stride[first + 1] = 1;
  }
  static Constant matrix(std::int64_t rows, std::int64_t columns, float value) {
    Constant result(1, rows, columns, value);
    result.view.rank = 2;
    result.view.shape[0] = rows;
    result.view.shape[1] = columns;
    result.view.stride[0] = columns;
    result.view.stride[1] = 1;
    return result;
  }
  [[nodiscard]] float at(std::int64_t index) const {
    return static_cast<const float*>(view.data)[index];
  }
  std::vector<float> storage;
  moesaic_tensor view{};
};

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
    offs_view_.data = &offs_;
    offs_view_.dtype = moesaic_i32;
    offs_view_.rank = 1;
    offs_view_.shape[0] = 1;
    offs_view_.stride[0] = 1;
  }
  void TearDown() override { moesaic_expert_mlp_destroy(plan_); }
  void create() {
    ASSERT_EQ(moesaic_expert_mlp_create(&problem_, kCpu, nullptr, &plan_), moesaic_ok)
        << moesaic_last_error();
  }
  moesaic_workspace workspace(std::size_t size_bytes) {
    memory_.assign(size_bytes + 256, 0);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return {memory_.data() + (256 - address % 256) % 256, size_bytes};
  }

  moesaic_expert_mlp_problem problem_{};
  moesaic_expert_mlp* plan_ = nullptr;
  std::int32_t offs_ = 3;  // one tail row
  moesaic_tensor offs_view_{};
  std::vector<unsigned char> memory_;
};

TEST_F(ExpertMlp, ForwardAndBackwardAgreeWithTheFormula) {
  create();
  EXPECT_EQ(std::string(moesaic_expert_mlp_implementation(plan_)).find("cpu/"), 0U);
  const Constant x = Constant::matrix(kRows, kWidth, 0.5F);
  const Constant w_up_gate(1, 2 * kHidden, kWidth, 0.25F);  // u = 8 * 0.5 * 0.25 = 1 everywhere
  const Constant w_down(1, kWidth, kHidden, 0.125F);
  const Constant y = Constant::matrix(kRows, kWidth, 9.0F);
  const Constant u = Constant::matrix(kRows, 2 * kHidden, 0.0F);
  moesaic_expert_mlp_forward_args forward{};
  forward.x = x.view;
  forward.w_up_gate = w_up_gate.view;
  forward.w_down = w_down.view;
  forward.offs = offs_view_;
  forward.y = y.view;
  forward.u = u.view;
  moesaic_workspace scratch = workspace(moesaic_expert_mlp_forward_workspace_bytes(plan_));
  ASSERT_EQ(moesaic_expert_mlp_forward(plan_, &forward, &scratch, nullptr), moesaic_ok)
      << moesaic_last_error();
  const double sigmoid = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(y.at(0), sigmoid, 1e-6);  // 8 * 0.125 * up * silu(gate)
  EXPECT_EQ(u.at(0), 1.0F);
  EXPECT_EQ(y.at(3 * kWidth), 9.0F) << "the tail row was written";

  const Constant dy = Constant::matrix(kRows, kWidth, 1.0F);
  const Constant dx = Constant::matrix(kRows, kWidth, 9.0F);
  const Constant dw_up_gate(1, 2 * kHidden, kWidth, 9.0F), dw_down(1, kWidth, kHidden, 9.0F);
  moesaic_expert_mlp_backward_args backward{};
  backward.dy = dy.view;
  backward.x = x.view;
  backward.w_up_gate = w_up_gate.view;
  backward.w_down = w_down.view;
  backward.offs = offs_view_;
  backward.u = u.view;
  backward.dx = dx.view;
  backward.dw_up_gate = dw_up_gate.view;
  backward.dw_down = dw_down.view;
  scratch = workspace(moesaic_expert_mlp_backward_workspace_bytes(plan_));
  ASSERT_EQ(moesaic_expert_mlp_backward(plan_, &backward, &scratch, nullptr), moesaic_ok)
      << moesaic_last_error();
  const double d_up = sigmoid;                              // dh = 8 * 0.125 = 1
  const double d_gate = sigmoid * (1 + 1 * (1 - sigmoid));  // silu'(1)
  EXPECT_NEAR(dw_down.at(0), 3 * sigmoid, 1e-5);            // three rows of dy * h
  EXPECT_NEAR(dw_up_gate.at(0), 3 * 0.5 * d_up, 1e-5);      // the first half is up
  EXPECT_NEAR(dw_up_gate.at(kHidden * kWidth), 3 * 0.5 * d_gate, 1e-5);
  EXPECT_NEAR(dx.at(0), 8 * 0.25 * (d_up + d_gate), 1e-5);
  EXPECT_EQ(dx.at(3 * kWidth), 9.0F) << "the tail row was written";
}

/// Rows with weights 1, 2, 3: what they scale, and their gradient, which they do not.
TEST_F(ExpertMlp, RowWeights) {
  problem_.row_weights = 1;
  problem_.tail = moesaic_tail_zero;
  create();
  const Constant x = Constant::matrix(kRows, kWidth, 0.5F);
  const Constant w_up_gate(1, 2 * kHidden, kWidth, 0.25F);  // u = 1 everywhere
  const Constant w_down(1, kWidth, kHidden, 0.125F);
  const Constant y = Constant::matrix(kRows, kWidth, 9.0F);
  const Constant u = Constant::matrix(kRows, 2 * kHidden, 0.0F);
  float weights[kRows] = {1, 2, 3, NAN};
  float gradient[kRows] = {9, 9, 9, 9};
  moesaic_tensor vector{};
  vector.dtype = moesaic_f32;
  vector.rank = 1;
  vector.shape[0] = kRows;
  vector.stride[0] = 1;
  moesaic_expert_mlp_forward_args forward{};
  forward.x = x.view;
  forward.w_up_gate = w_up_gate.view;
  forward.w_down = w_down.view;
  forward.offs = offs_view_;
  forward.y = y.view;
  forward.u = u.view;
  moesaic_workspace memory = workspace(moesaic_expert_mlp_forward_workspace_bytes(plan_));
  EXPECT_EQ(moesaic_expert_mlp_forward(plan_, &forward, &memory, nullptr),
            moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("row_weights: expected f32 [4]"), 0U);
  forward.row_weights = vector;
  forward.row_weights.data = weights;
  ASSERT_EQ(moesaic_expert_mlp_forward(plan_, &forward, &memory, nullptr), moesaic_ok)
      << moesaic_last_error();
  const double sigmoid = 1 / (1 + std::exp(-1.0));
  for (int row = 0; row < 3; ++row) {
    EXPECT_NEAR(y.at(row * kWidth), (row + 1) * sigmoid, 1e-6);
  }
  EXPECT_EQ(y.at(3 * kWidth), 0.0F) << "the tail row";

  const Constant dy = Constant::matrix(kRows, kWidth, 1.0F);
  const Constant dx = Constant::matrix(kRows, kWidth, 9.0F);
  const Constant dw_down(1, kWidth, kHidden, 9.0F);
  moesaic_expert_mlp_backward_args backward{};
  backward.dy = dy.view;
  backward.x = x.view;
  backward.w_up_gate = w_up_gate.view;
  backward.w_down = w_down.view;
  backward.offs = offs_view_;
  backward.u = u.view;
  backward.dx = dx.view;
  backward.dw_down = dw_down.view;
  backward.row_weights = forward.row_weights;
  backward.drow_weights = vector;
  backward.drow_weights.data = gradient;
  memory = workspace(moesaic_expert_mlp_backward_workspace_bytes(plan_));
  ASSERT_EQ(moesaic_expert_mlp_backward(plan_, &backward, &memory, nullptr), moesaic_ok)
      << moesaic_last_error();
  EXPECT_NEAR(dw_down.at(0), (1 + 2 + 3) * sigmoid, 1e-5);
  const double slope = sigmoid * (1 + 1 * (1 - sigmoid));
  for (int row = 0; row < 3; ++row) {
    EXPECT_NEAR(dx.at(row * kWidth), (row + 1) * 8 * 0.25 * (sigmoid + slope), 1e-5);
    EXPECT_NEAR(gradient[row], 8 * sigmoid, 1e-5);  // dy · y of a weight of one
  }
  EXPECT_EQ(gradient[3], 0.0F) << "the tail row";

  problem_.row_weights = 2;
  moesaic_expert_mlp* none = nullptr;
  EXPECT_EQ(moesaic_expert_mlp_create(&problem_, kCpu, nullptr, &none), moesaic_invalid_argument);
  EXPECT_STREQ(moesaic_last_error(), "row_weights: expected 0 or 1, got 2");
}

/// Rows 1, none and 0 of two rows of x.
TEST_F(ExpertMlp, RowsOfXByAnIndex) {
  problem_.x_rows = moesaic_indexed;
  create();
  EXPECT_EQ(moesaic_expert_mlp_copies_x(plan_), 1);
  EXPECT_EQ(moesaic_expert_mlp_copies_x(nullptr), 0);
  const Constant x = Constant::matrix(2, kWidth, 0.5F);
  std::fill_n(static_cast<float*>(x.view.data) + kWidth, kWidth, 1.0F);
  const Constant w_up_gate(1, 2 * kHidden, kWidth, 0.25F);  // u = 1 or 2 everywhere
  const Constant w_down(1, kWidth, kHidden, 0.125F);
  const Constant y = Constant::matrix(kRows, kWidth, 9.0F);
  const Constant u = Constant::matrix(kRows, 2 * kHidden, 0.0F);
  std::int32_t rows[kRows] = {1, -1, 0, 77};
  moesaic_expert_mlp_forward_args forward{};
  forward.x = x.view;
  forward.w_up_gate = w_up_gate.view;
  forward.w_down = w_down.view;
  forward.offs = offs_view_;
  forward.y = y.view;
  forward.u = u.view;
  moesaic_workspace memory = workspace(moesaic_expert_mlp_forward_workspace_bytes(plan_));
  EXPECT_EQ(moesaic_expert_mlp_forward(plan_, &forward, &memory, nullptr),
            moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("x_rows: expected i32 [4]"), 0U);
  forward.x_rows.dtype = moesaic_i32;
  forward.x_rows.rank = 1;
  forward.x_rows.shape[0] = kRows;
  forward.x_rows.stride[0] = 1;
  forward.x_rows.data = rows;
  ASSERT_EQ(moesaic_expert_mlp_forward(plan_, &forward, &memory, nullptr), moesaic_ok)
      << moesaic_last_error();
  const auto value = [](double one) { return one * one / (1 + std::exp(-one)); };
  EXPECT_NEAR(y.at(0), value(2), 1e-5);
  EXPECT_EQ(y.at(kWidth), 0.0F) << "of no row of x";
  EXPECT_NEAR(y.at(2 * kWidth), value(1), 1e-6);

  const Constant dy = Constant::matrix(kRows, kWidth, 1.0F);
  const Constant dw_up_gate(1, 2 * kHidden, kWidth, 9.0F);
  moesaic_expert_mlp_backward_args backward{};
  backward.dy = dy.view;
  backward.x = x.view;
  backward.w_up_gate = w_up_gate.view;
  backward.w_down = w_down.view;
  backward.offs = offs_view_;
  backward.u = u.view;
  backward.dw_up_gate = dw_up_gate.view;
  backward.x_rows = forward.x_rows;
  memory = workspace(moesaic_expert_mlp_backward_workspace_bytes(plan_));
  ASSERT_EQ(moesaic_expert_mlp_backward(plan_, &backward, &memory, nullptr), moesaic_ok)
      << moesaic_last_error();
  const auto silu = [](double gate) { return gate / (1 + std::exp(-gate)); };
  EXPECT_NEAR(dw_up_gate.at(0), silu(2) * 1.0 + silu(1) * 0.5, 1e-5);

  problem_.x_rows = 3;
  moesaic_expert_mlp* none = nullptr;
  EXPECT_EQ(moesaic_expert_mlp_create(&problem_, kCpu, nullptr, &none), moesaic_invalid_argument);
  EXPECT_STREQ(moesaic_last_error(), "x_rows: expected 0 to 2, got 3");
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
  moesaic_expert_mlp_forward_args forward{};
  const moesaic_workspace scratch = workspace(moesaic_expert_mlp_forward_workspace_bytes(plan_));
  EXPECT_EQ(moesaic_expert_mlp_forward(plan_, &forward, &scratch, nullptr),
            moesaic_invalid_argument);
  EXPECT_EQ(std::string(moesaic_last_error()).find("x: expected"), 0U) << moesaic_last_error();
  EXPECT_EQ(moesaic_expert_mlp_backward(plan_, nullptr, &scratch, nullptr),
            moesaic_invalid_argument);
  EXPECT_STREQ(moesaic_last_error(), "args: expected a pointer, got null");
}

}  // namespace
