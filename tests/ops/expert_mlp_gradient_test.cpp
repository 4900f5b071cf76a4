// SPDX-License-Identifier: Apache-2.0
// Values and gradients of the expert MLP, with and without weights of rows, against its formula
// written down again in double precision and against central finite differences of that.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr std::int64_t kD = 8, kH = 8;
const Counts kCounts = {3, 0, 2};

using Parameter = std::tuple<Implementation, UpGateOrder, bool>;

/// y[row][:] of `expert`, from the tensors as they are, `nudge` added to one of their elements; to
/// the weight of the row where it names no tensor.
struct Nudge {
  const HostTensor* tensor = nullptr;
  std::int64_t expert = 0, row = 0, column = 0;
  double by = 0;
};

class Formula {
 public:
  Formula(const MlpRun& run, const Nudge& nudge) : run_(run), nudge_(nudge) {}

  [[nodiscard]] double y(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t j = 0; j < kH; ++j) {
      const double up = u(expert, row, up_column(run_.problem.order, j, kH));
      const double gate = u(expert, row, gate_column(run_.problem.order, j, kH));
      sum += up * gate / (1 + std::exp(-gate)) * at(run_.w_down, expert, column, j);
    }
    return weight(row) * sum;
  }
  /// The loss whose gradient with respect to y is dy.
  [[nodiscard]] double loss() const {
    double sum = 0;
    std::int64_t row = 0;
    for (std::size_t expert = 0; expert < kCounts.size(); ++expert) {
      for (std::int64_t i = 0; i < kCounts[expert]; ++i, ++row) {
        for (std::int64_t column = 0; column < kD; ++column) {
          sum += run_.dy.get(0, row, column) * y(static_cast<std::int64_t>(expert), row, column);
        }
      }
    }
    return sum;
  }

 private:
  [[nodiscard]] double weight(std::int64_t row) const {
    if (run_.row_weights.empty()) {
      return 1;
    }
    const bool nudged = nudge_.tensor == nullptr && row == nudge_.row;
    return run_.row_weights[static_cast<std::size_t>(row)] + (nudged ? nudge_.by : 0);
  }
  [[nodiscard]] double at(const HostTensor& tensor, std::int64_t expert, std::int64_t row,
                          std::int64_t column) const {
    const bool nudged = &tensor == nudge_.tensor && expert == nudge_.expert && row == nudge_.row &&
                        column == nudge_.column;
    return tensor.get(expert, row, column) + (nudged ? nudge_.by : 0);
  }
  [[nodiscard]] double u(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t i = 0; i < kD; ++i) {
      sum += at(run_.x, 0, row, i) * at(run_.w_up_gate, expert, column, i);
    }
    return sum;
  }

  const MlpRun& run_;
  Nudge nudge_;
};

class MlpGradient : public ::testing::TestWithParam<Parameter> {
 protected:
  static MlpRun result() {
    ExpertMlpProblem problem =
        make_mlp(std::get<UpGateOrder>(GetParam()), Format::f32, 3, 6, kD, kH);
    problem.row_weights = std::get<bool>(GetParam());
    MlpRun run(problem, ends(kCounts));
    run.fill(21);
    run.forward(std::get<Implementation>(GetParam()));
    run.backward(std::get<Implementation>(GetParam()));
    return run;
  }
  static double numeric(const MlpRun& run, const HostTensor& tensor, std::int64_t expert,
                        std::int64_t row, std::int64_t column) {
    constexpr double kStep = 1e-5;
    const double above = Formula(run, {&tensor, expert, row, column, kStep}).loss();
    const double below = Formula(run, {&tensor, expert, row, column, -kStep}).loss();
    return (above - below) / (2 * kStep);
  }
  static void compare(const MlpRun& run, const HostTensor& gradient, const HostTensor& tensor,
                      std::int64_t experts, std::int64_t rows) {
    double largest = 0;
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < tensor.columns(); ++column) {
          const double want = numeric(run, tensor, expert, row, column);
          largest = std::max(largest, std::abs(want));
          ASSERT_NEAR(gradient.get(expert, row, column), want, 1e-5 + 1e-5 * std::abs(want))
              << expert << " " << row << " " << column;
        }
      }
    }
    EXPECT_GT(largest, 0.1);  // or the test shows nothing
  }
};

TEST_P(MlpGradient, ValuesOfTheFormula) {
  const MlpRun run = result();
  const Formula formula(run, {});
  std::int64_t row = 0;
  for (std::size_t expert = 0; expert < kCounts.size(); ++expert) {
    for (std::int64_t i = 0; i < kCounts[expert]; ++i, ++row) {
      for (std::int64_t column = 0; column < kD; ++column) {
        const double want = formula.y(static_cast<std::int64_t>(expert), row, column);
        ASSERT_NEAR(run.y.get(0, row, column), want, 1e-5 + 1e-5 * std::abs(want));
      }
    }
  }
}

TEST_P(MlpGradient, OfX) {
  const MlpRun run = result();
  compare(run, run.dx, run.x, 1, 5);
}

TEST_P(MlpGradient, OfUpAndGateWeights) {
  const MlpRun run = result();
  compare(run, run.dw_up_gate, run.w_up_gate, 3, 2 * kH);
}

TEST_P(MlpGradient, OfDownWeights) {
  const MlpRun run = result();
  compare(run, run.dw_down, run.w_down, 3, kD);
}

TEST_P(MlpGradient, OfRowWeights) {
  constexpr double kStep = 0.5;  // y is linear in them
  const MlpRun run = result();
  for (std::size_t row = 0; row < run.drow_weights.size() && row < 5; ++row) {
    const auto index = static_cast<std::int64_t>(row);
    const double want = (Formula(run, {nullptr, 0, index, 0, kStep}).loss() -
                         Formula(run, {nullptr, 0, index, 0, -kStep}).loss()) /
                        (2 * kStep);
    ASSERT_NEAR(run.drow_weights[row], want, 1e-5 + 1e-5 * std::abs(want));
    ASSERT_GT(std::abs(want), 1e-3);
  }
}

/// U is what forward keeps: x times the weights, in the columns of the order.
TEST_P(MlpGradient, SavedU) {
  MlpRun run = result();
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t column = 0; column < 2 * kH; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < kD; ++i) {
        sum += run.x.get(0, row, i) * run.w_up_gate.get(0, column, i);
      }
      ASSERT_NEAR(run.u.get(0, row, column), sum, 1e-5);
    }
  }
}

/// silu far from zero: no overflow of the exponential, no NaN.
TEST_P(MlpGradient, ExtremeGates) {
  MlpRun run(make_mlp(std::get<UpGateOrder>(GetParam()), Format::f32, 1, 2, kD, kH), {2});
  run.fill(22);
  for (const double scale : {1e2, 1e4, 1e18}) {
    for (std::int64_t column = 0; column < kD; ++column) {
      run.x.set(0, 0, column, scale);
      run.x.set(0, 1, column, -scale);
    }
    run.forward(std::get<Implementation>(GetParam()));
    run.backward(std::get<Implementation>(GetParam()));
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t column = 0; column < kD; ++column) {
        const double want = Formula(run, {}).y(0, row, column);
        ASSERT_TRUE(std::isfinite(run.dx.get(0, row, column))) << scale;
        if (scale < 1e10) {
          ASSERT_NEAR(run.y.get(0, row, column), want, 1e-4 * scale * scale) << scale;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MlpGradient,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllOrders), ::testing::Bool()),
                         [](const auto& instance) {
                           return test_name(std::get<0>(instance.param).name + "_" +
                                            std::string(name(std::get<1>(instance.param))) +
                                            (std::get<2>(instance.param) ? "_weighted" : ""));
                         });

}  // namespace
}  // namespace moesaic::testing
