// SPDX-License-Identifier: Apache-2.0
// Checks of the expert MLP's backward: dx and drow_weights on sampled rows, both weight gradients
// on sampled elements.

#include <algorithm>
#include <vector>

#include "check/mlp_rows.hpp"
#include "core/message.hpp"
#include "core/validate.hpp"
#include "math/expert_segment.hpp"

namespace moesaic {
namespace {

using check::Bounded;

struct Backward {
  const ExpertMlpProblem& mlp;
  const ExpertMlpBackwardArgs& args;
  DType dtype;
  math::UpGateLayout layout;
  check::LayerRows x{args.x, args.x_rows};

  [[nodiscard]] Bounded u(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    return check::rounded(check::row_dot(x, row, args.w_up_gate, expert, column), dtype);
  }
  [[nodiscard]] Bounded dh(std::int64_t expert, std::int64_t row, std::int64_t j) const {
    return check::rounded(check::column_dot(args.dy, row, args.w_down, expert, j), dtype);
  }
};

/// Hidden element j of one row: h times the row's weight, the gradients of its two columns of u,
/// and its part of the gradient of that weight.
struct Hidden {
  Bounded h;
  check::DSwiglu du;
  Bounded weight_term;
};

Hidden hidden(const Backward& in, std::int64_t expert, std::int64_t row, std::int64_t j) {
  const Bounded up = in.u(expert, row, math::up_column(in.layout, j, in.mlp.h));
  const Bounded gate = in.u(expert, row, math::gate_column(in.layout, j, in.mlp.h));
  const Bounded dh = in.dh(expert, row, j);
  const double weight = check::weight_of(in.args.row_weights, row);
  return {check::swiglu(up, gate, weight, in.dtype),
          check::dswiglu(up, gate, check::product({weight, 0}, dh), in.dtype),
          check::weight_term(up, gate, dh)};
}

/// dx, and drow_weights where it is given.
void check_row(const Backward& in, std::int64_t expert, std::int64_t row, CheckResult& result) {
  const std::int64_t d = in.mlp.d;
  std::vector<check::BoundedSum> sums(static_cast<std::size_t>(d));
  const auto add_line = [&](const Bounded& factor, std::int64_t line) {
    const std::int64_t at =
        expert * in.args.w_up_gate.stride[0] + line * in.args.w_up_gate.stride[1];
    for (std::int64_t column = 0; column < d; ++column) {
      sums[static_cast<std::size_t>(column)].add(
          factor, check::load_element(in.args.w_up_gate, at + column));
    }
  };
  check::BoundedSum dweight;
  for (std::int64_t j = 0; j < in.mlp.h; ++j) {
    const Hidden value = hidden(in, expert, row, j);
    add_line(value.du.dup, math::up_column(in.layout, j, in.mlp.h));
    add_line(value.du.dgate, math::gate_column(in.layout, j, in.mlp.h));
    dweight.add(value.weight_term, 1);
  }
  if (in.args.drow_weights.data != nullptr) {
    check::compare(check::load_element(in.args.drow_weights, row), dweight.rounded_to(DType::f32),
                   {"drow_weights", expert, row, 0}, result);
  }
  for (std::int64_t column = 0; column < d; ++column) {
    check::compare(check::element(in.args.dx, row, column),
                   sums[static_cast<std::size_t>(column)].rounded_to(in.dtype),
                   {"dx", expert, row, column}, result);
  }
}

/// Compares dw[expert][rows[i]][columns[i]] where one index is fixed.
void compare_weight(const Backward& in, const char* name, const TensorView& dw, std::int64_t expert,
                    std::int64_t row, std::int64_t column, const check::BoundedSum& sum, bool empty,
                    CheckResult& result) {
  Bounded want = sum.rounded_to(in.mlp.wgrad_dtype);
  if (empty) {
    want.error = 0;  // exactly zero
  }
  const double got = check::load_element(dw, expert * dw.stride[0] + row * dw.stride[1] + column);
  check::compare(got, want, {name, expert, row, column}, result);
}

/// Element j of H feeds column j of dw_down and the lines of its two columns in dw_up_gate.
void check_weight_column(const Backward& in, std::int64_t expert, math::RowRange segment,
                         std::int64_t j, const std::vector<std::int64_t>& others,
                         CheckResult& result) {
  std::vector<check::BoundedSum> down(others.size()), up(others.size()), gate(others.size());
  for (std::int64_t row = segment.begin; row < segment.end; ++row) {
    const Hidden value = hidden(in, expert, row, j);
    for (std::size_t i = 0; i < others.size(); ++i) {
      down[i].add(value.h, check::element(in.args.dy, row, others[i]));
      const double x = check::element(in.x, row, others[i]);
      up[i].add(value.du.dup, x);
      gate[i].add(value.du.dgate, x);
    }
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    const bool empty = segment.empty();
    compare_weight(in, "dw_down", in.args.dw_down, expert, others[i], j, down[i], empty, result);
    compare_weight(in, "dw_up_gate", in.args.dw_up_gate, expert,
                   math::up_column(in.layout, j, in.mlp.h), others[i], up[i], empty, result);
    compare_weight(in, "dw_up_gate", in.args.dw_up_gate, expert,
                   math::gate_column(in.layout, j, in.mlp.h), others[i], gate[i], empty, result);
  }
}

void check_shapes(const Backward& in) {
  const ExpertMlpProblem& mlp = in.mlp;
  const auto rows = [&](std::int64_t columns, bool written) {
    return core::MatrixSpec{in.dtype, Device{}, 0, mlp.max_rows, columns, written};
  };
  const auto weights = [&](std::int64_t lines, std::int64_t columns, DType dtype, bool written) {
    return core::MatrixSpec{dtype, Device{}, mlp.num_experts, lines, columns, written};
  };
  core::check_matrix("dy", in.args.dy, rows(mlp.d, false));
  core::check_x(in.args.x, in.args.x_rows, mlp, Device{});
  core::check_matrix("dx", in.args.dx, rows(mlp.d, true));
  core::check_matrix("w_up_gate", in.args.w_up_gate, weights(2 * mlp.h, mlp.d, in.dtype, false));
  core::check_matrix("w_down", in.args.w_down, weights(mlp.d, mlp.h, in.dtype, false));
  core::check_matrix("dw_up_gate", in.args.dw_up_gate,
                     weights(2 * mlp.h, mlp.d, mlp.wgrad_dtype, true));
  core::check_matrix("dw_down", in.args.dw_down, weights(mlp.d, mlp.h, mlp.wgrad_dtype, true));
  core::check_offs("offs", in.args.offs, mlp.num_experts, Device{});
  core::check_row_numbers("row_weights", in.args.row_weights, mlp, Device{});
  if (in.args.drow_weights.data != nullptr) {
    core::check_row_numbers("drow_weights", in.args.drow_weights, mlp, Device{});
  }
  if (mlp.accumulate_wgrad) {
    core::refuse("accumulate_wgrad", "false, since old contents are not known here", "true");
  }
  core::check_no_overlap("dx", in.args.dx, "x", in.args.x);
}

}  // namespace

CheckResult check_expert_mlp_backward(const ExpertMlpProblem& problem,
                                      const ExpertMlpBackwardArgs& args,
                                      const CheckOptions& options) {
  core::check_problem(problem);
  const Backward in{problem, args, core::operand_dtype(problem.format),
                    core::up_gate_layout(problem.order)};
  check_shapes(in);
  // Columns of H cost a pass over the expert's rows each, elements along the other side little.
  const std::int64_t wanted = options.elements_per_expert;
  const std::int64_t hidden_columns = wanted < 0 ? -1 : std::clamp<std::int64_t>(wanted / 24, 1, 8);
  const std::int64_t others =
      wanted < 0 ? -1 : std::max<std::int64_t>(1, wanted / (3 * hidden_columns));
  return check::check_experts(problem.num_experts, [&](std::int64_t expert, CheckResult& result) {
    const math::RowRange segment =
        math::expert_rows(static_cast<const std::int32_t*>(args.offs.data),
                          static_cast<std::int32_t>(expert), problem.max_rows);
    const std::uint64_t seed = check::expert_seed(options, expert);
    for (const std::int64_t row : check::sample(segment.rows(), options.rows_per_expert, seed)) {
      check_row(in, expert, segment.begin + row, result);
    }
    const std::vector<std::int64_t> sides = check::sample(problem.d, others, seed + 1);
    for (const std::int64_t j : check::sample(problem.h, hidden_columns, seed + 2)) {
      check_weight_column(in, expert, segment, j, sides, result);
    }
  });
}

}  // namespace moesaic
