// SPDX-License-Identifier: Apache-2.0
// See expert_mlp_checks.hpp.

#include "ops/expert_mlp_checks.hpp"

#include <string_view>
#include <utility>

#include "core/message.hpp"
#include "core/validate.hpp"

namespace moesaic::ops {
namespace {

/// The tensors of a call, as its problem and device want them.
class Checks {
 public:
  Checks(const ExpertMlpProblem& mlp, Device device)
      : mlp_(mlp), device_(device), dtype_(core::operand_dtype(mlp.format)) {}

  void rows(const char* name, const ConstTensorView& view, std::int64_t columns,
            bool written) const {
    core::check_matrix(name, view, {dtype_, device_, 0, mlp_.max_rows, columns, written});
  }
  void weights(const char* name, const ConstTensorView& view, std::int64_t lines,
               std::int64_t columns) const {
    core::check_matrix(name, view, {dtype_, device_, mlp_.num_experts, lines, columns, false});
  }
  void weight_gradient(const char* name, const TensorView& view, std::int64_t lines,
                       std::int64_t columns) const {
    core::check_matrix(name, view,
                       {mlp_.wgrad_dtype, device_, mlp_.num_experts, lines, columns, true});
  }
  void offs(const ConstTensorView& view) const {
    core::check_offs("offs", view, mlp_.num_experts, device_);
  }
  void saved(const ConstTensorView& u, bool written) const {
    if (mlp_.activations != Activations::recompute) {
      rows("u", u, 2 * mlp_.h, written);
    } else if (u.data != nullptr) {
      core::refuse("u", "an empty view with recompute", describe(u));
    }
  }

 private:
  const ExpertMlpProblem& mlp_;
  Device device_;
  DType dtype_;
};

}  // namespace

void check_forward(const ExpertMlpProblem& mlp, Device device, const ExpertMlpForwardArgs& args) {
  const Checks check(mlp, device);
  core::check_x(args.x, args.x_rows, mlp, device);
  if (args.packed_up_gate == nullptr) {
    check.weights("w_up_gate", args.w_up_gate, 2 * mlp.h, mlp.d);
  }
  if (args.packed_down == nullptr) {
    check.weights("w_down", args.w_down, mlp.d, mlp.h);
  }
  check.offs(args.offs);
  check.rows("y", args.y, mlp.d, true);
  check.saved(args.u, true);
  core::check_row_numbers("row_weights", args.row_weights, mlp, device);
  for (const auto& [name, read] : {std::pair{"x", args.x},
                                   {"w_up_gate", args.w_up_gate},
                                   {"w_down", args.w_down},
                                   {"offs", args.offs},
                                   {"row_weights", args.row_weights},
                                   {"x_rows", args.x_rows}}) {
    core::check_no_overlap("y", args.y, name, read);
    core::check_no_overlap("u", args.u, name, read);
  }
  core::check_no_overlap("y", args.y, "u", args.u);
}

void check_backward(const ExpertMlpProblem& mlp, Device device, const ExpertMlpBackwardArgs& args) {
  const Checks check(mlp, device);
  core::check_x(args.x, args.x_rows, mlp, device);
  check.weights("w_up_gate", args.w_up_gate, 2 * mlp.h, mlp.d);
  check.weights("w_down", args.w_down, mlp.d, mlp.h);
  check.offs(args.offs);
  check.rows("dy", args.dy, mlp.d, false);
  check.saved(args.u, false);
  core::check_row_numbers("row_weights", args.row_weights, mlp, device);
  if (!wanted(args.dx) && !wanted(args.dw_up_gate) && !wanted(args.dw_down) &&
      !wanted(args.drow_weights)) {
    core::refuse("dx",
                 mlp.row_weights ? "one of dx, dw_up_gate, dw_down and drow_weights at least"
                                 : "one of dx, dw_up_gate and dw_down at least",
                 "none of them");
  }
  if (wanted(args.dx)) {
    check.rows("dx", args.dx, mlp.d, true);
  }
  if (wanted(args.dw_up_gate)) {
    check.weight_gradient("dw_up_gate", args.dw_up_gate, 2 * mlp.h, mlp.d);
  }
  if (wanted(args.dw_down)) {
    check.weight_gradient("dw_down", args.dw_down, mlp.d, mlp.h);
  }
  if (wanted(args.drow_weights)) {
    core::check_row_numbers("drow_weights", args.drow_weights, mlp, device);
  }
  const std::pair<const char*, ConstTensorView> reads[] = {{"dy", args.dy},
                                                           {"x", args.x},
                                                           {"w_up_gate", args.w_up_gate},
                                                           {"w_down", args.w_down},
                                                           {"offs", args.offs},
                                                           {"u", args.u},
                                                           {"row_weights", args.row_weights},
                                                           {"x_rows", args.x_rows}};
  for (const auto& [name, read] : reads) {
    core::check_no_overlap("dw_up_gate", args.dw_up_gate, name, read);
    core::check_no_overlap("dw_down", args.dw_down, name, read);
    core::check_no_overlap("drow_weights", args.drow_weights, name, read);
    const bool may_be_x = std::string_view(name) == "x" && mlp.x_rows == XRows::in_order &&
                          args.dx.data == args.x.data && args.dx.stride == args.x.stride;
    if (!may_be_x) {
      core::check_no_overlap("dx", args.dx, name, read);
    }
  }
  core::check_no_overlap("dx", args.dx, "dw_up_gate", args.dw_up_gate);
  core::check_no_overlap("dx", args.dx, "dw_down", args.dw_down);
  core::check_no_overlap("dw_up_gate", args.dw_up_gate, "dw_down", args.dw_down);
  for (const auto& [name, other] :
       {std::pair{"dx", args.dx}, {"dw_up_gate", args.dw_up_gate}, {"dw_down", args.dw_down}}) {
    core::check_no_overlap("drow_weights", args.drow_weights, name, other);
  }
}

}  // namespace moesaic::ops
