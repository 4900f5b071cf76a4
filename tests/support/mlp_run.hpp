// SPDX-License-Identifier: Apache-2.0
// One expert MLP with its host tensors.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "moesaic/expert_mlp.hpp"
#include "support/grouped_run.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {

inline constexpr UpGateOrder kAllOrders[] = {UpGateOrder::up_gate, UpGateOrder::gate_up,
                                             UpGateOrder::interleaved};

inline ExpertMlpProblem make_mlp(UpGateOrder order, Format format, std::int64_t experts,
                                 std::int64_t rows, std::int64_t d, std::int64_t h) {
  ExpertMlpProblem problem{};
  problem.order = order;
  problem.format = format;
  problem.num_experts = static_cast<int>(experts);
  problem.max_rows = rows;
  problem.d = d;
  problem.h = h;
  problem.wgrad_dtype = format == Format::f32 ? DType::f32 : DType::bf16;
  return problem;
}

/// Column of up or gate element j in U, from the words of the contract.
inline std::int64_t up_column(UpGateOrder order, std::int64_t j, std::int64_t h) {
  return order == UpGateOrder::interleaved ? 2 * j : (order == UpGateOrder::up_gate ? j : h + j);
}
inline std::int64_t gate_column(UpGateOrder order, std::int64_t j, std::int64_t h) {
  return order == UpGateOrder::interleaved ? 2 * j + 1
                                           : (order == UpGateOrder::up_gate ? h + j : j);
}

struct MlpRun {
  ExpertMlpProblem problem;
  std::vector<std::int32_t> offs;
  HostTensor x, w_up_gate, w_down, y, u, dy, dx, dw_up_gate, dw_down;
  std::vector<float> row_weights, drow_weights;  ///< [M] where the problem has them.
  std::vector<std::int32_t> x_rows;  ///< [M] where the problem has them, and x is [kTokens, d].
  static constexpr std::int64_t kTokens = 23;

  MlpRun(const ExpertMlpProblem& mlp, std::vector<std::int32_t> end_rows,
         const Layout& layout = kDense)
      : problem(mlp), offs(std::move(end_rows)) {
    const DType type = problem.format == Format::f32 ? DType::f32 : DType::bf16;
    const std::int64_t rows = problem.max_rows, d = problem.d, h = problem.h;
    const std::int64_t experts = problem.num_experts;
    for (HostTensor* tensor : {&x, &y, &dy, &dx}) {
      *tensor = HostTensor(type, 0, rows, d, layout);
    }
    if (gathered()) {
      x = HostTensor(type, 0, kTokens, d, layout);
      x_rows.assign(static_cast<std::size_t>(rows), -7);
    }
    u = HostTensor(type, 0, rows, 2 * h, layout);
    w_up_gate = HostTensor(type, experts, 2 * h, d, layout);
    w_down = HostTensor(type, experts, d, h, layout);
    dw_up_gate = HostTensor(problem.wgrad_dtype, experts, 2 * h, d, layout);
    dw_down = HostTensor(problem.wgrad_dtype, experts, d, h, layout);
    if (problem.row_weights) {
      row_weights.assign(static_cast<std::size_t>(rows), std::numeric_limits<float>::quiet_NaN());
      drow_weights = row_weights;
    }
  }

  /// Routed rows and weights get numbers of order 1; U too. Tail rows keep their NaN.
  void fill(std::uint64_t seed) {
    const std::int64_t routed = problem.num_experts == 0 ? 0 : offs.back();
    fill_scaled(x, 0, gathered() ? kTokens - 1 : routed, 1, seed);
    fill_x_rows(routed, seed);
    fill_scaled(dy, 0, routed, 1, seed + 1);
    fill_scaled(w_up_gate, 0, w_up_gate.rows(), 1 / std::sqrt(static_cast<double>(problem.d)),
                seed + 2);
    fill_scaled(w_down, 0, w_down.rows(), 1 / std::sqrt(static_cast<double>(problem.h)), seed + 3);
    if (problem.row_weights) {
      std::mt19937_64 random(seed + 4);
      std::normal_distribution<float> value(0, 1);
      for (std::int64_t row = 0; row < routed; ++row) {
        row_weights[static_cast<std::size_t>(row)] = row == 2 ? 0 : value(random);
      }
    }
  }
  /// In no order, with repetitions, some of them outside of x; the last row of x, NaN, is nobody's.
  void fill_x_rows(std::int64_t routed, std::uint64_t seed) {
    if (!gathered()) return;
    std::mt19937_64 random(seed + 5);
    for (std::int64_t row = 0; row < routed; ++row) {
      x_rows[static_cast<std::size_t>(row)] =
          row % 9 == 4 ? (row % 2 == 0 ? -1 : kTokens) : static_cast<int>(random() % (kTokens - 1));
    }
  }
  static void fill_scaled(HostTensor& tensor, std::int64_t begin, std::int64_t end, double scale,
                          std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> value(0, scale);
    for (std::int64_t expert = 0; expert < (tensor.experts() == 0 ? 1 : tensor.experts());
         ++expert) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t column = 0; column < tensor.columns(); ++column) {
          tensor.set(expert, row, column, value(random));
        }
      }
    }
  }

  [[nodiscard]] ConstTensorView offs_view() const {
    return moesaic::view(std::span<const std::int32_t>(offs),
                         {static_cast<std::int64_t>(offs.size())});
  }
  [[nodiscard]] ConstTensorView row_weights_view() const {
    return moesaic::view(std::span<const float>(row_weights), {problem.max_rows});
  }
  [[nodiscard]] ConstTensorView x_rows_view() const {
    return moesaic::view(std::span<const std::int32_t>(x_rows), {problem.max_rows});
  }
  [[nodiscard]] bool gathered() const { return problem.x_rows != XRows::in_order; }
  [[nodiscard]] bool saves() const { return problem.activations == Activations::save; }

  [[nodiscard]] ExpertMlpForwardArgs forward_args() {
    ExpertMlpForwardArgs args;
    args.x = x.view();
    args.w_up_gate = w_up_gate.view();
    args.w_down = w_down.view();
    args.offs = offs_view();
    args.y = y.view();
    if (saves()) {
      args.u = u.view();
    }
    if (problem.row_weights) {
      args.row_weights = row_weights_view();
    }
    if (gathered()) {
      args.x_rows = x_rows_view();
    }
    return args;
  }
  [[nodiscard]] ExpertMlpBackwardArgs backward_args() {
    ExpertMlpBackwardArgs args;
    args.dy = dy.view();
    args.x = x.view();
    args.w_up_gate = w_up_gate.view();
    args.w_down = w_down.view();
    args.offs = offs_view();
    if (saves()) {
      args.u = u.view();
    }
    args.dx = dx.view();
    args.dw_up_gate = dw_up_gate.view();
    args.dw_down = dw_down.view();
    if (problem.row_weights) {
      args.row_weights = row_weights_view();
      args.drow_weights = moesaic::view(std::span<float>(drow_weights), {problem.max_rows});
    }
    if (gathered()) {
      args.x_rows = x_rows_view();
    }
    return args;
  }

  [[nodiscard]] ExpertMlp plan(const Implementation& implementation) {
    problem.strategy = implementation.strategy;
    PlanOptions options;
    options.implementation = implementation.name;
    return ExpertMlp::plan(problem, cpu(), options);
  }
  DeviceFault forward(const Implementation& implementation) {
    return forward(implementation, forward_args());
  }
  DeviceFault forward(const Implementation& implementation, const ExpertMlpForwardArgs& args) {
    const ExpertMlp mlp = plan(implementation);
    const HostWorkspace workspace(mlp.forward_workspace_bytes());
    mlp.forward(args, workspace.get(), Stream::cpu());
    return read_fault(workspace.get(), Stream::cpu());
  }
  DeviceFault backward(const Implementation& implementation) {
    return backward(implementation, backward_args());
  }
  DeviceFault backward(const Implementation& implementation, const ExpertMlpBackwardArgs& args) {
    const ExpertMlp mlp = plan(implementation);
    const HostWorkspace workspace(mlp.backward_workspace_bytes());
    mlp.backward(args, workspace.get(), Stream::cpu());
    return read_fault(workspace.get(), Stream::cpu());
  }
};

inline const Implementation kReference{"cpu/reference/grouped", Strategy::grouped};

}  // namespace moesaic::testing
