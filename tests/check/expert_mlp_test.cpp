// SPDX-License-Identifier: Apache-2.0
// The checkers of the expert MLP must find every kind of fault, a wrong up/gate order among them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "moesaic/check.hpp"
#include "support/expect_error.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr CheckOptions kAll{-1, -1, 1};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Parameter = std::tuple<UpGateOrder, Format>;

class CheckedMlp : public ::testing::TestWithParam<Parameter> {
 protected:
  MlpRun right_result() {
    MlpRun run(make_mlp(std::get<0>(GetParam()), std::get<1>(GetParam()), 3, 20, 16, 24),
               {7, 7, 18}, kScattered);
    run.fill(1);
    run.forward(kReference);
    run.backward(kReference);
    return run;
  }
  static CheckResult forward(MlpRun& run, const CheckOptions& options = kAll) {
    return check_expert_mlp_forward(run.problem, run.forward_args(), options);
  }
  static CheckResult backward(MlpRun& run, const CheckOptions& options = kAll) {
    return check_expert_mlp_backward(run.problem, run.backward_args(), options);
  }
};

TEST_P(CheckedMlp, ARightResultPasses) {
  MlpRun run = right_result();
  const CheckResult y = forward(run);
  EXPECT_EQ(y.elements, 18 * (16 + 2 * 24));
  EXPECT_EQ(y.mismatches, 0);
  const CheckResult gradients = backward(run);
  EXPECT_EQ(gradients.elements, 18 * 16 + 3 * (3 * 16 * 24));
  EXPECT_EQ(gradients.mismatches, 0);
}

TEST_P(CheckedMlp, AnyOtherOrderIsFound) {
  for (const UpGateOrder other : kAllOrders) {
    if (other == std::get<0>(GetParam())) {
      continue;
    }
    MlpRun run = right_result();
    run.problem.order = other;
    EXPECT_GT(forward(run).mismatches, 18 * 16 / 2) << name(other);
    EXPECT_GT(backward(run).mismatches, (18 * 16 + 2 * (3 * 16 * 24)) / 2) << name(other);
  }
}

TEST_P(CheckedMlp, OneElementOfEachTensor) {
  const std::pair<std::string, HostTensor MlpRun::*> tensors[] = {
      {"y", &MlpRun::y},
      {"u", &MlpRun::u},
      {"dx", &MlpRun::dx},
      {"dw_up_gate", &MlpRun::dw_up_gate},
      {"dw_down", &MlpRun::dw_down}};
  for (const auto& [tensor, member] : tensors) {
    for (const double wrong : {kNan, 50.0, -std::numeric_limits<double>::infinity()}) {
      MlpRun run = right_result();
      const std::int64_t expert = (run.*member).experts() > 0 ? 2 : 0;
      (run.*member).set(expert, 8, 5, wrong);
      const bool is_forward = tensor == "y" || tensor == "u";
      const CheckResult result = is_forward ? forward(run) : backward(run);
      ASSERT_EQ(result.mismatches, 1) << tensor;
      EXPECT_EQ(result.first->tensor, tensor);
      EXPECT_EQ(result.first->expert, 2);
      EXPECT_EQ(result.first->row, 8);
      EXPECT_EQ(result.first->column, 5);
    }
  }
}

/// The allowance for intermediates in BF16 must not swallow a whole row or an eighth of a value.
TEST_P(CheckedMlp, ZeroedSwappedAndScaledRows) {
  for (HostTensor MlpRun::*member : {&MlpRun::y, &MlpRun::dx}) {
    const auto mismatches = [&](const std::function<void(HostTensor&)>& spoil) {
      MlpRun run = right_result();
      spoil(run.*member);
      return member == &MlpRun::y ? forward(run).mismatches : backward(run).mismatches;
    };
    EXPECT_GT(mismatches([](HostTensor& t) { t.fill_rows(0, 17, 18, 0); }), 12);
    EXPECT_GT(mismatches([](HostTensor& t) {
                for (std::int64_t j = 0; j < 16; ++j) {
                  const double upper = t.get(0, 3, j);
                  t.set(0, 3, j, t.get(0, 4, j));
                  t.set(0, 4, j, upper);
                }
              }),
              24);
    EXPECT_GT(mismatches([](HostTensor& t) {
                for (std::int64_t j = 0; j < 16; ++j) {
                  t.set(0, 3, j, t.get(0, 3, j) * 1.125);
                }
              }),
              8);
  }
}

/// A gradient that misses one row of its expert.
TEST_P(CheckedMlp, AWeightGradientThatMissesARow) {
  MlpRun run = right_result();
  MlpRun other = right_result();
  for (std::int64_t j = 0; j < 16; ++j) {
    other.dy.set(0, 12, j, 0);
  }
  other.backward(kReference);
  std::swap(run.dw_down, other.dw_down);
  std::swap(run.dw_up_gate, other.dw_up_gate);
  EXPECT_GT(backward(run).mismatches, 3 * 16 * 24 / 2);
}

/// Weights of rows: left out of y, dx or dw_down, or a gradient of theirs that is off.
TEST_P(CheckedMlp, RowWeights) {
  const auto result = [](std::int64_t row, float factor) {
    ExpertMlpProblem problem =
        make_mlp(std::get<0>(GetParam()), std::get<1>(GetParam()), 3, 20, 16, 24);
    problem.row_weights = true;
    MlpRun run(problem, {7, 7, 18}, kScattered);
    run.fill(1);
    const float right = run.row_weights[static_cast<std::size_t>(row)];
    run.row_weights[static_cast<std::size_t>(row)] *= factor;
    run.forward(kReference);
    run.backward(kReference);
    run.row_weights[static_cast<std::size_t>(row)] = right;
    return run;
  };
  MlpRun run = result(8, 1);
  EXPECT_EQ(forward(run).mismatches, 0);
  const CheckResult all = backward(run);
  EXPECT_EQ(all.elements, 18 * 16 + 3 * (3 * 16 * 24) + 18);
  EXPECT_EQ(all.mismatches, 0);

  MlpRun wrong = result(8, 1.25F);
  EXPECT_GT(forward(wrong).mismatches, 12);
  EXPECT_GT(backward(wrong).mismatches, 12 + 3 * 16 * 24 / 4);

  for (const double off : {1e-2, static_cast<double>(kNan)}) {
    MlpRun one = result(8, 1);
    float& gradient = one.drow_weights[8];
    gradient = static_cast<float>(gradient + off * (1 + std::abs(gradient)) * 8);
    const CheckResult found = backward(one);
    ASSERT_EQ(found.mismatches, 1);
    EXPECT_EQ(found.first->tensor, "drow_weights");
    EXPECT_EQ(found.first->row, 8);
    EXPECT_EQ(found.first->expert, 2);
  }
  MlpRun none = result(8, 1);
  ExpertMlpBackwardArgs args = none.backward_args();
  args.drow_weights = {};
  EXPECT_EQ(check_expert_mlp_backward(none.problem, args, kAll).elements,
            18 * 16 + 3 * (3 * 16 * 24));
  args.row_weights = {};
  expect_error(ErrorCode::invalid_argument, {"row_weights", "f32 [20]"},
               [&] { check_expert_mlp_backward(none.problem, args, kAll); });
}

TEST_P(CheckedMlp, AnotherRowOfXIsFound) {
  const auto result = [](std::int64_t row, std::int32_t index) {
    ExpertMlpProblem problem =
        make_mlp(std::get<0>(GetParam()), std::get<1>(GetParam()), 3, 20, 16, 24);
    problem.x_rows = XRows::indexed;
    MlpRun run(problem, {7, 7, 18}, kScattered);
    run.fill(1);
    const std::int32_t right = run.x_rows[static_cast<std::size_t>(row)];
    run.x_rows[static_cast<std::size_t>(row)] = index == 0 ? right : index;
    run.forward(kReference);
    run.backward(kReference);
    run.x_rows[static_cast<std::size_t>(row)] = right;
    return run;
  };
  MlpRun run = result(8, 0);
  EXPECT_EQ(forward(run).elements, 18 * (16 + 2 * 24));
  EXPECT_EQ(forward(run).mismatches, 0);
  EXPECT_EQ(backward(run).mismatches, 0);
  for (const std::int32_t other : {run.x_rows[8] == 9 ? 10 : 9, -1}) {
    MlpRun wrong = result(8, other);
    const CheckResult found = forward(wrong);
    EXPECT_GT(found.mismatches, 40);
    EXPECT_EQ(found.first->row, 8);
    EXPECT_GT(backward(wrong).mismatches, 3 * 16 * 24 / 4);
  }
  ExpertMlpForwardArgs args = run.forward_args();
  args.x_rows = {};
  expect_error(ErrorCode::invalid_argument, {"x_rows", "i32 [20]"},
               [&] { check_expert_mlp_forward(run.problem, args, kAll); });
}

TEST_P(CheckedMlp, AnEmptyExpertThatIsNotZero) {
  for (HostTensor MlpRun::*member : {&MlpRun::dw_up_gate, &MlpRun::dw_down}) {
    MlpRun run = right_result();
    (run.*member).set(1, 2, 3, 1e-38);
    EXPECT_EQ(backward(run).mismatches, 1);
  }
}

TEST_P(CheckedMlp, TheSampleHasFirstAndLastRows) {
  for (const std::int64_t row : {0, 6, 7, 17}) {
    MlpRun run = right_result();
    run.y.set(0, row, 3, 77);
    run.dx.set(0, row, 3, 77);
    EXPECT_EQ(forward(run, {2, 64, 3}).mismatches, 1) << row;
    EXPECT_EQ(backward(run, {2, 24, 3}).mismatches, 1) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CheckedMlp,
                         ::testing::Combine(::testing::ValuesIn(kAllOrders),
                                            ::testing::Values(Format::bf16, Format::f32)));

TEST(CheckExpertMlp, Refusals) {
  MlpRun run(make_mlp(UpGateOrder::up_gate, Format::bf16, 2, 10, 16, 24), {4, 10});
  run.fill(1);
  const Device gpu{DeviceKind::cuda, 0};
  ExpertMlpForwardArgs args = run.forward_args();
  args.x.device = gpu;
  expect_error(ErrorCode::invalid_argument, {"x", "cuda:0"},
               [&] { check_expert_mlp_forward(run.problem, args); });
  ExpertMlpBackwardArgs back = run.backward_args();
  back.dw_down.shape[1] = 8;
  expect_error(ErrorCode::invalid_argument, {"dw_down"},
               [&] { check_expert_mlp_backward(run.problem, back); });
  back = run.backward_args();
  back.dx.data = run.x.view().data;
  expect_error(ErrorCode::invalid_argument, {"dx", "x"},
               [&] { check_expert_mlp_backward(run.problem, back); });
  run.problem.accumulate_wgrad = true;
  expect_error(ErrorCode::invalid_argument, {"accumulate_wgrad"},
               [&] { check_expert_mlp_backward(run.problem, run.backward_args()); });
}

}  // namespace
}  // namespace moesaic::testing
