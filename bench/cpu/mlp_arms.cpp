// SPDX-License-Identifier: Apache-2.0
// See mlp_arms.hpp.

#include "cpu/mlp_arms.hpp"

#include <span>

#include "cpu/grouped_arms.hpp"
#include "moesaic/device.hpp"

namespace moesaic::bench {
namespace {

constexpr float kActivationScale = 1.0F;
constexpr float kWeightScale = 0.05F;  // gates of order one at d = 1,024
constexpr std::int64_t kBackwardRows = 2;
constexpr double kForwardFlops = 6;    // per row, d and h: 2 * 2h * d and 2 * d * h
constexpr double kBackwardFlops = 12;  // each product gives an input and a weight gradient

struct PlannedMlp {
  ExpertMlp mlp;
  HostWorkspace workspace;
  PackedWeights packed_up_gate, packed_down;
  ExpertMlpForwardArgs args{};

  PlannedMlp(ExpertMlp planned, std::size_t workspace_bytes)
      : mlp(std::move(planned)), workspace(workspace_bytes) {}
};

}  // namespace

MlpOperands::MlpOperands(std::int64_t d, std::int64_t h, const Routing& routing)
    : d_(d),
      h_(h),
      experts_(static_cast<std::int64_t>(routing.counts.size())),
      rows_(0),
      offs_(end_offsets(routing.counts)) {
  rows_ = offs_.back();
  x_ = HostTensor(DType::bf16, {rows_, d});
  w_up_gate_ = HostTensor(DType::bf16, {experts_, 2 * h, d});
  w_down_ = HostTensor(DType::bf16, {experts_, d, h});
  y_ = HostTensor(DType::bf16, {rows_, d});
  u_ = HostTensor(DType::bf16, {rows_, 2 * h});
  x_.fill(1, kActivationScale);
  w_up_gate_.fill(2, kWeightScale);
  w_down_.fill(3, kWeightScale);
}

std::shared_ptr<MlpOperands> MlpOperands::make(std::int64_t d, std::int64_t h,
                                               const Routing& routing) {
  return std::shared_ptr<MlpOperands>(new MlpOperands(d, h, routing));
}

ExpertMlp MlpOperands::plan(Strategy strategy) const {
  ExpertMlpProblem problem{};
  problem.format = Format::bf16;
  problem.num_experts = static_cast<int>(experts_);
  problem.max_rows = rows_;
  problem.d = d_;
  problem.h = h_;
  problem.order = UpGateOrder::up_gate;
  problem.activations = Activations::save;
  problem.strategy = strategy;
  PlanOptions options;
  options.implementation = "cpu/onednn/" + std::string(name(strategy));
  return ExpertMlp::plan(problem, query_device(Device{}), options);
}

ExpertMlpForwardArgs MlpOperands::forward_args() const {
  ExpertMlpForwardArgs args;
  args.x = x_.view();
  args.w_up_gate = w_up_gate_.view();
  args.w_down = w_down_.view();
  args.offs = view(std::span<const std::int32_t>(offs_), {experts_});
  args.y = y_.view();
  args.u = u_.view();
  return args;
}

ExpertMlpBackwardArgs MlpOperands::backward_args() const {
  ExpertMlpBackwardArgs args;
  args.dy = dy_.view();
  args.x = x_.view();
  args.w_up_gate = w_up_gate_.view();
  args.w_down = w_down_.view();
  args.offs = view(std::span<const std::int32_t>(offs_), {experts_});
  args.u = u_.view();
  args.dx = dx_.view();
  args.dw_up_gate = dw_up_gate_.view();
  args.dw_down = dw_down_.view();
  return args;
}

void MlpOperands::prepare_backward() {
  if (dy_.elements() > 0) {
    return;
  }
  dy_ = HostTensor(DType::bf16, {rows_, d_});
  dy_.fill(4, kActivationScale);
  dx_ = HostTensor(DType::bf16, {rows_, d_});
  dw_up_gate_ = HostTensor(DType::bf16, {experts_, 2 * h_, d_});
  dw_down_ = HostTensor(DType::bf16, {experts_, d_, h_});
  const ExpertMlp mlp = plan(Strategy::grouped);
  const HostWorkspace workspace(mlp.forward_workspace_bytes());
  mlp.forward(forward_args(), workspace.get(), Stream::cpu());
}

Arm MlpOperands::describe(const MlpArm& what, const ExpertMlp& mlp, bool forward) const {
  Arm arm;
  arm.name = what.name;
  arm.implementation = mlp.implementation();
  arm.problem = {{"pass", forward ? "mlp_forward" : "mlp_backward"},
                 {"format", "bf16"},
                 {"num_experts", experts_},
                 {"max_rows", rows_},
                 {"d", d_},
                 {"h", h_},
                 {"order", name(mlp.problem().order)},
                 {"activations", name(mlp.problem().activations)},
                 {"weights", what.packed ? "packed" : "enk"},
                 {"strategy", name(what.strategy)},
                 {"threads", cpu_threads()}};
  arm.ratio_to = what.ratio_to;
  arm.useful_flops = arm.executed_flops = (forward ? kForwardFlops : kBackwardFlops) *
                                          static_cast<double>(rows_) * static_cast<double>(d_) *
                                          static_cast<double>(h_);
  arm.check_reference = forward ? "double-precision layer over sampled rows of every expert"
                                : "double-precision gradients, sampled in dx, dw_up_gate, dw_down";
  return arm;
}

Arm MlpOperands::forward(const MlpArm& what) {
  ExpertMlp mlp = plan(what.strategy);
  const std::size_t workspace_bytes = mlp.forward_workspace_bytes();
  auto planned = std::make_shared<PlannedMlp>(std::move(mlp), workspace_bytes);
  planned->args = forward_args();
  if (what.packed) {
    planned->packed_up_gate = planned->mlp.pack_up_gate({w_up_gate_.view(), {}}, Stream::cpu());
    planned->packed_down = planned->mlp.pack_down({w_down_.view(), {}}, Stream::cpu());
    planned->args.w_up_gate = {};
    planned->args.w_down = {};
    planned->args.packed_up_gate = &planned->packed_up_gate;
    planned->args.packed_down = &planned->packed_down;
  }
  const auto run = [planned] {
    planned->mlp.forward(planned->args, planned->workspace.get(), Stream::cpu());
  };
  Arm arm = describe(what, planned->mlp, true);
  arm.run = run;
  arm.check = [self = shared_from_this(), planned, run] {
    self->y_.poison();
    self->u_.poison();
    run();
    return check_expert_mlp_forward(planned->mlp.problem(), self->forward_args());
  };
  return arm;
}

Arm MlpOperands::backward(const MlpArm& what) {
  prepare_backward();
  ExpertMlp mlp = plan(what.strategy);
  const std::size_t workspace_bytes = mlp.backward_workspace_bytes();
  auto planned = std::make_shared<PlannedMlp>(std::move(mlp), workspace_bytes);
  const auto run = [self = shared_from_this(), planned] {
    planned->mlp.backward(self->backward_args(), planned->workspace.get(), Stream::cpu());
  };
  Arm arm = describe(what, planned->mlp, false);
  arm.run = run;
  arm.check = [self = shared_from_this(), planned, run] {
    self->dx_.poison();
    self->dw_up_gate_.poison();
    self->dw_down_.poison();
    run();
    CheckOptions options;
    options.rows_per_expert = kBackwardRows;
    return check_expert_mlp_backward(planned->mlp.problem(), self->backward_args(), options);
  };
  return arm;
}

}  // namespace moesaic::bench
