// SPDX-License-Identifier: Apache-2.0
// Operands and plans of one SwiGLU layer.
#include "mlp_operands.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "compare.hpp"
#include "operands.hpp"
#include "stats.hpp"

namespace moesaic::cli {
namespace {

bool keeps_u(const PlannedMlp& plan) { return plan.mlp.problem().activations == Activations::save; }
bool any_keeps_u(std::span<const PlannedMlp> planned) {
  return std::any_of(planned.begin(), planned.end(), keeps_u);
}

/// Which token every row is: all routes of all tokens shuffled over the experts, and within an
/// expert in the order of their tokens, as a stable sort by expert leaves them.
std::vector<std::int32_t> make_x_rows(const routing::Record& record, const RunFlags& flags,
                                      std::uint64_t seed) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(record.rows()));
  for (std::size_t route = 0; route < rows.size(); ++route) {
    rows[route] =
        static_cast<std::int32_t>(static_cast<std::int64_t>(route) / flags.rows_per_token);
  }
  std::mt19937_64 random(seed);  // not std::shuffle, which libraries do differently
  for (std::size_t left = rows.size(); left > 1; --left) {
    std::swap(rows[left - 1], rows[random() % left]);
  }
  auto begin = rows.begin();
  for (const std::int64_t count : record.counts) {
    std::sort(begin, begin + count);
    begin += count;
  }
  return rows;
}

CheckResult check_all(const ExpertMlpProblem& problem, const MlpTensors& operands,
                      std::uint64_t seed) {
  CheckResult check = find_unwritten("y", operands.y, operands.offs);
  check.merge(find_unwritten("dx", operands.dx, operands.offs));
  check.merge(find_unwritten("dw_up_gate", operands.dw_up_gate, operands.offs));
  check.merge(find_unwritten("dw_down", operands.dw_down, operands.offs));
  ExpertMlpForwardArgs forward = operands.forward_args();
  if (problem.activations == Activations::recompute) forward.u = {};  // another plan's
  check.merge(check_expert_mlp_forward(problem, forward, {.seed = seed}));
  check.merge(check_expert_mlp_backward(problem, operands.backward_args(), {.seed = seed}));
  return check;
}

void poison_outputs(MlpTensors& operands) {
  for (HostTensor* tensor :
       {&operands.y, &operands.dx, &operands.dw_up_gate, &operands.dw_down, &operands.u}) {
    if (tensor->size_bytes() > 0) tensor->poison();
  }
}

}  // namespace

std::size_t PlannedMlp::workspace_bytes() const { return cli::workspace_bytes(mlp); }

MlpMemory PlannedMlp::memory() const {
  const ExpertMlpProblem& problem = mlp.problem();
  const std::int64_t element = problem.format == Format::bf16 ? 2 : 4;
  return {keeps_u(*this) ? element * problem.max_rows * 2 * problem.h : 0,
          static_cast<std::int64_t>(mlp.forward_scratch_bytes()),
          static_cast<std::int64_t>(mlp.backward_scratch_bytes())};
}

std::vector<PlannedMlp> plan_mlps(const routing::Record& record, const RunFlags& flags,
                                  const DeviceInfo& device, ExpertMlpProblem problem,
                                  RunResults& results) {
  std::vector<PlannedMlp> planned;
  for (const Strategy strategy : flags.strategies) {
    problem.strategy = strategy;
    try {
      planned.push_back({strategy, ExpertMlp::plan(problem, device)});
    } catch (const Error& error) {
      skip_or_throw(record, flags, strategy, error, results);
    }
  }
  return planned;
}

MemoryNeed memory_need(const ExpertMlpProblem& problem, std::span<const PlannedMlp> planned) {
  std::size_t workspace_bytes = 0;
  for (const PlannedMlp& plan : planned) {
    workspace_bytes = std::max(workspace_bytes, plan.workspace_bytes());
  }
  const auto rows = static_cast<double>(problem.max_rows);
  const auto d = static_cast<double>(problem.d);
  const auto h = static_cast<double>(problem.h);
  const double saved = any_keeps_u(planned) ? rows * 2 * h : 0;
  const double weights = 2 * 3 * d * h * problem.num_experts;  // values and gradients
  const double element = problem.format == Format::bf16 ? 2 : 4;
  return {element * weights,
          element * (4 * rows * d + saved) + static_cast<double>(workspace_bytes)};
}

MlpTensors make_mlp_tensors(const ExpertMlpProblem& problem, std::span<const PlannedMlp> planned,
                            const routing::Record& record, const RunFlags& flags,
                            std::uint64_t seed) {
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  const std::int64_t rows = problem.max_rows, experts = problem.num_experts;
  const std::vector<std::int64_t> wide = {rows, problem.d};
  const std::vector<std::int64_t> up_gate = {experts, 2 * problem.h, problem.d};
  const std::vector<std::int64_t> down = {experts, problem.d, problem.h};
  MlpTensors operands;
  operands.offs = end_offsets(record.counts);
  operands.x = HostTensor(dtype, wide);
  if (problem.x_rows != XRows::in_order) {
    operands.x = HostTensor(dtype, {num_tokens(flags, rows), problem.d});
    operands.x_rows = make_x_rows(record, flags, seed);
  }
  operands.dy = HostTensor(dtype, wide);
  operands.w_up_gate = HostTensor(dtype, up_gate);
  operands.w_down = HostTensor(dtype, down);
  operands.y = HostTensor(dtype, wide);
  operands.dx = HostTensor(dtype, wide);
  operands.dw_up_gate = HostTensor(problem.wgrad_dtype, up_gate);
  operands.dw_down = HostTensor(problem.wgrad_dtype, down);
  if (any_keeps_u(planned)) {
    operands.u = HostTensor(dtype, {rows, 2 * problem.h});
  }
  fill_normal(operands.x, kActivationScale, seed, OperandStream::x);
  fill_normal(operands.dy, kActivationScale, seed, OperandStream::dy);
  fill_normal(operands.w_up_gate, kWeightScale, seed, OperandStream::weights);
  fill_normal(operands.w_down, kWeightScale, seed, OperandStream::down_weights);
  return operands;
}

void MlpStep::forward() const {
  ExpertMlpForwardArgs args = tensors_.staged_forward();
  if (!keeps_u()) args.u = {};
  plan_.mlp.forward(args, workspace_.get(), site_.stream());
}

void MlpStep::backward() const {
  ExpertMlpBackwardArgs args = tensors_.staged_backward();
  if (!keeps_u()) args.u = {};
  plan_.mlp.backward(args, workspace_.get(), site_.stream());
}

CheckResult step_and_check(const PlannedMlp& plan, MlpTensors& tensors,
                           const SiteWorkspace& workspace, const Site& site, std::uint64_t seed) {
  poison_outputs(tensors);
  tensors.stage(site);
  const MlpStep step(plan, tensors, workspace, site);
  step.forward();
  step.backward();
  tensors.fetch(site);
  return check_all(plan.mlp.problem(), tensors, seed);
}

RunCase describe_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                     const PlannedMlp& plan) {
  RunCase result = describe_case(record, flags, device, plan.strategy);
  result.implementation = plan.mlp.implementation();
  result.activations = plan.mlp.problem().activations;
  result.x_rows = plan.mlp.problem().x_rows;
  result.memory = plan.memory();
  // Forward: 4dh for U and 2dh for Y per row. Backward: twice that, for inputs and weights.
  // Recomputing U adds 4dh of work that brings nothing new.
  const std::int64_t dh = flags.shape.d * flags.shape.h;
  const std::int64_t again = result.activations == Activations::recompute ? 4 * dh : 0;
  result.useful_flops = result.rows * 18 * dh;
  result.executed_flops = executed_rows(record, flags, result) * (18 * dh + again);
  return result;
}

void set_step_times(RunCase& result, const std::vector<double>& forward_seconds,
                    const std::vector<double>& backward_seconds, const CpuLoad& load) {
  std::vector<double> samples(forward_seconds.size());
  std::transform(forward_seconds.begin(), forward_seconds.end(), backward_seconds.begin(),
                 samples.begin(), std::plus<>());
  set_times(result, samples, load);
  result.forward_seconds = median(forward_seconds);
  result.backward_seconds = median(backward_seconds);
}

}  // namespace moesaic::cli
