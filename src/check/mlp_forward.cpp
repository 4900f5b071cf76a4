// SPDX-License-Identifier: Apache-2.0
// Checks of the expert MLP's forward: u where it is kept, and y.

#include <vector>

#include "check/mlp_rows.hpp"
#include "core/message.hpp"
#include "core/validate.hpp"
#include "math/expert_segment.hpp"

namespace moesaic {
namespace {

using check::Bounded;

void check_row(const ExpertMlpProblem& mlp, const ExpertMlpForwardArgs& args, std::int64_t expert,
               std::int64_t row, CheckResult& result) {
  const DType dtype = core::operand_dtype(mlp.format);
  const math::UpGateLayout layout = core::up_gate_layout(mlp.order);
  std::vector<Bounded> u(static_cast<std::size_t>(2 * mlp.h));
  for (std::int64_t column = 0; column < 2 * mlp.h; ++column) {
    Bounded& want = u[static_cast<std::size_t>(column)];
    want = check::rounded(
        check::row_dot(check::LayerRows{args.x, args.x_rows}, row, args.w_up_gate, expert, column),
        dtype);
    if (args.u.data != nullptr) {
      check::compare(check::element(args.u, row, column), want, {"u", expert, row, column}, result);
    }
  }
  const double weight = check::weight_of(args.row_weights, row);
  std::vector<Bounded> h(static_cast<std::size_t>(mlp.h));
  for (std::int64_t j = 0; j < mlp.h; ++j) {
    h[static_cast<std::size_t>(j)] =
        check::swiglu(u[static_cast<std::size_t>(math::up_column(layout, j, mlp.h))],
                      u[static_cast<std::size_t>(math::gate_column(layout, j, mlp.h))], 1, dtype);
  }
  for (std::int64_t column = 0; column < mlp.d; ++column) {
    check::BoundedSum sum;
    const std::int64_t line = expert * args.w_down.stride[0] + column * args.w_down.stride[1];
    for (std::int64_t j = 0; j < mlp.h; ++j) {
      sum.add(h[static_cast<std::size_t>(j)], check::load_element(args.w_down, line + j));
    }
    const Bounded want = mlp.row_weights ? check::scaled(sum.rounded_to(DType::f32), weight, dtype)
                                         : sum.rounded_to(dtype);
    check::compare(check::element(args.y, row, column), want, {"y", expert, row, column}, result);
  }
}

}  // namespace

CheckResult check_expert_mlp_forward(const ExpertMlpProblem& problem,
                                     const ExpertMlpForwardArgs& args,
                                     const CheckOptions& options) {
  core::check_problem(problem);
  const DType dtype = core::operand_dtype(problem.format);
  const std::int64_t rows = problem.max_rows;
  core::check_x(args.x, args.x_rows, problem, Device{});
  core::check_matrix("w_up_gate", args.w_up_gate,
                     {dtype, Device{}, problem.num_experts, 2 * problem.h, problem.d, false});
  core::check_matrix("w_down", args.w_down,
                     {dtype, Device{}, problem.num_experts, problem.d, problem.h, false});
  core::check_offs("offs", args.offs, problem.num_experts, Device{});
  core::check_matrix("y", args.y, {dtype, Device{}, 0, rows, problem.d, true});
  if (args.u.data != nullptr) {
    core::check_matrix("u", args.u, {dtype, Device{}, 0, rows, 2 * problem.h, true});
  }
  core::check_row_numbers("row_weights", args.row_weights, problem, Device{});
  return check::check_experts(problem.num_experts, [&](std::int64_t expert, CheckResult& result) {
    const math::RowRange segment = math::expert_rows(
        static_cast<const std::int32_t*>(args.offs.data), static_cast<std::int32_t>(expert), rows);
    const std::uint64_t seed = check::expert_seed(options, expert);
    for (const std::int64_t row : check::sample(segment.rows(), options.rows_per_expert, seed)) {
      check_row(problem, args, expert, segment.begin + row, result);
    }
  });
}

}  // namespace moesaic
