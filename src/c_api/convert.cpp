// SPDX-License-Identifier: Apache-2.0
// See convert.hpp.

#include "c_api/convert.hpp"

#include <algorithm>
#include <string>

#include "core/message.hpp"

namespace moesaic::c_api {
namespace {

/// The enumerator `value` of an enum whose last one is `last`.
template <class Enum>
Enum to_enum(std::string_view field, std::int32_t value, Enum last) {
  if (value < 0 || value > static_cast<std::int32_t>(last)) {
    core::refuse(field, "0 to " + std::to_string(static_cast<int>(last)), std::to_string(value));
  }
  return static_cast<Enum>(value);
}

bool to_bool(std::string_view field, std::int32_t value) {
  if (value != 0 && value != 1) {
    core::refuse(field, "0 or 1", std::to_string(value));
  }
  return value == 1;
}

Capacity to_capacity(std::int32_t rule, std::int64_t factor_millionths, std::int64_t source_ranks) {
  Capacity capacity;
  capacity.rule = to_enum("capacity_rule", rule, CapacityRule::eight_row);
  if (factor_millionths != 0) {
    capacity.factor_millionths = factor_millionths;
  }
  if (source_ranks != 0) {
    capacity.source_ranks = source_ranks;
  }
  return capacity;
}

UpGateOrder to_order(std::int32_t order) {
  switch (order) {
    case moesaic_up_gate:
      return UpGateOrder::up_gate;
    case moesaic_gate_up:
      return UpGateOrder::gate_up;
    case moesaic_interleaved:
      return UpGateOrder::interleaved;
    default:
      core::refuse("order", "1 (up_gate), 2 (gate_up) or 3 (interleaved)", std::to_string(order));
  }
}

void check_reserved(std::int32_t reserved) {
  if (reserved != 0) {
    core::refuse("reserved", "0", std::to_string(reserved));
  }
}

}  // namespace

Device to_device(const moesaic_device& device) {
  return {to_enum("device.kind", device.kind, DeviceKind::cuda), device.index};
}

GroupedGemmProblem to_problem(const moesaic_gemm_problem& problem) {
  check_reserved(problem.reserved);
  GroupedGemmProblem result;
  result.pass = to_enum("pass", problem.pass, Pass::wgrad);
  result.format = to_enum("format", problem.format, Format::mxfp8);
  result.d_dtype = to_enum("d_dtype", problem.d_dtype, DType::i32);
  result.num_experts = problem.num_experts;
  result.max_rows = problem.max_rows;
  result.n = problem.n;
  result.k = problem.k;
  result.accumulate = to_bool("accumulate", problem.accumulate);
  result.weights = to_enum("weights", problem.weights, WeightStorage::ekn);
  result.tail = to_enum("tail", problem.tail, Tail::zero);
  result.strategy = to_enum("strategy", problem.strategy, Strategy::host_loop);
  result.capacity = to_capacity(problem.capacity_rule, problem.capacity_factor_millionths,
                                problem.capacity_source_ranks);
  return result;
}

ExpertMlpProblem to_problem(const moesaic_expert_mlp_problem& problem) {
  check_reserved(problem.reserved);
  ExpertMlpProblem result{.order = to_order(problem.order)};
  result.format = to_enum("format", problem.format, Format::mxfp8);
  result.num_experts = problem.num_experts;
  result.max_rows = problem.max_rows;
  result.d = problem.d;
  result.h = problem.h;
  result.activations = to_enum("activations", problem.activations, Activations::recompute);
  result.tail = to_enum("tail", problem.tail, Tail::zero);
  result.wgrad_dtype = to_enum("wgrad_dtype", problem.wgrad_dtype, DType::i32);
  result.accumulate_wgrad = to_bool("accumulate_wgrad", problem.accumulate_wgrad);
  result.strategy = to_enum("strategy", problem.strategy, Strategy::host_loop);
  result.capacity = to_capacity(problem.capacity_rule, problem.capacity_factor_millionths,
                                problem.capacity_source_ranks);
  result.row_weights = to_bool("row_weights", problem.row_weights);
  result.x_rows = to_enum("x_rows", problem.x_rows, XRows::copied);
  return result;
}

ExpertParallelProblem to_problem(const moesaic_ep_problem& problem) {
  ExpertParallelProblem result;
  result.format = to_enum("format", problem.format, Format::mxfp8);
  result.num_experts = problem.num_experts;
  result.topk = problem.topk;
  result.max_tokens = problem.max_tokens;
  result.d = problem.d;
  result.dispatch = to_enum("dispatch", problem.dispatch, DispatchForm::fan_out);
  if (problem.capacity_factor_millionths != 0) {
    result.capacity_factor_millionths = problem.capacity_factor_millionths;
  }
  return result;
}

PlanOptions to_options(const moesaic_plan_options* options) {
  PlanOptions result;
  if (options != nullptr) {
    if (options->implementation != nullptr) {
      result.implementation = options->implementation;
    }
    result.num_sms = options->num_sms;
    result.batch_invariant = to_bool("batch_invariant", options->batch_invariant);
  }
  return result;
}

TensorView to_view(std::string_view argument, const moesaic_tensor& tensor) {
  if (tensor.rank < 0 || tensor.rank > 3) {
    core::refuse(std::string(argument) + ".rank", "0 to 3", std::to_string(tensor.rank));
  }
  TensorView view;
  view.data = tensor.data;
  view.dtype = to_enum(argument, tensor.dtype, DType::i32);
  view.device = to_device(tensor.device);
  view.rank = tensor.rank;
  std::copy_n(tensor.shape, 3, view.shape.begin());
  std::copy_n(tensor.stride, 3, view.stride.begin());
  return view;
}

ConstTensorView to_const_view(std::string_view argument, const moesaic_tensor& tensor) {
  return to_view(argument, tensor);
}

Operand to_operand(std::string_view argument, const moesaic_operand& operand) {
  return {to_const_view(argument, operand.qdata), to_const_view(argument, operand.scales)};
}

Workspace to_workspace(void* data, std::size_t size_bytes, Device device) {
  // Without memory there are no bytes, whatever the size says.
  return {{static_cast<std::byte*>(data), data == nullptr ? 0 : size_bytes}, device};
}

}  // namespace moesaic::c_api
