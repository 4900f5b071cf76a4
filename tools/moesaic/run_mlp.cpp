// SPDX-License-Identifier: Apache-2.0
// One record through the SwiGLU layer, forward and backward, by every strategy. y, dx, dw_up_gate
// and dw_down are all checked.
#include <algorithm>
#include <functional>
#include <utility>

#include "compare.hpp"
#include "machine.hpp"
#include "mlp_tensors.hpp"
#include "operands.hpp"
#include "run.hpp"
#include "stats.hpp"

namespace moesaic::cli {
namespace {

struct PlannedMlp {
  Strategy strategy;
  ExpertMlp mlp;
  [[nodiscard]] std::size_t workspace_bytes() const {
    return std::max(mlp.forward_workspace_bytes(), mlp.backward_workspace_bytes());
  }
};

std::vector<PlannedMlp> plan_all(const routing::Record& record, const RunFlags& flags,
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
  const double saved = problem.activations == Activations::save ? rows * 2 * h : 0;
  const double weights = 2 * 3 * d * h * problem.num_experts;  // values and gradients
  const double element = problem.format == Format::bf16 ? 2 : 4;
  return {element * weights,
          element * (4 * rows * d + saved) + static_cast<double>(workspace_bytes)};
}

MlpTensors make_tensors(const ExpertMlpProblem& problem, const routing::Record& record,
                        std::uint64_t seed) {
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  const std::int64_t rows = problem.max_rows, experts = problem.num_experts;
  const std::vector<std::int64_t> wide = {rows, problem.d};
  const std::vector<std::int64_t> up_gate = {experts, 2 * problem.h, problem.d};
  const std::vector<std::int64_t> down = {experts, problem.d, problem.h};
  MlpTensors operands;
  operands.offs = end_offsets(record.counts);
  operands.x = HostTensor(dtype, wide);
  operands.dy = HostTensor(dtype, wide);
  operands.w_up_gate = HostTensor(dtype, up_gate);
  operands.w_down = HostTensor(dtype, down);
  operands.y = HostTensor(dtype, wide);
  operands.dx = HostTensor(dtype, wide);
  operands.dw_up_gate = HostTensor(problem.wgrad_dtype, up_gate);
  operands.dw_down = HostTensor(problem.wgrad_dtype, down);
  if (problem.activations == Activations::save) {
    operands.u = HostTensor(dtype, {rows, 2 * problem.h});
  }
  fill_normal(operands.x, kActivationScale, seed, OperandStream::x);
  fill_normal(operands.dy, kActivationScale, seed, OperandStream::dy);
  fill_normal(operands.w_up_gate, kWeightScale, seed, OperandStream::weights);
  fill_normal(operands.w_down, kWeightScale, seed, OperandStream::down_weights);
  return operands;
}

CheckResult check_all(const ExpertMlpProblem& problem, const MlpTensors& operands,
                      std::uint64_t seed) {
  CheckResult check = find_unwritten("y", operands.y, operands.offs);
  check.merge(find_unwritten("dx", operands.dx, operands.offs));
  check.merge(find_unwritten("dw_up_gate", operands.dw_up_gate, operands.offs));
  check.merge(find_unwritten("dw_down", operands.dw_down, operands.offs));
  check.merge(check_expert_mlp_forward(problem, operands.forward_args(), {.seed = seed}));
  check.merge(check_expert_mlp_backward(problem, operands.backward_args(), {.seed = seed}));
  return check;
}

void poison_outputs(MlpTensors& operands) {
  for (HostTensor* tensor :
       {&operands.y, &operands.dx, &operands.dw_up_gate, &operands.dw_down, &operands.u}) {
    if (tensor->size_bytes() > 0) tensor->poison();
  }
}

/// Checks the first step, then times more of them; a sample is one forward and one backward.
void measure(const PlannedMlp& plan, MlpTensors& operands, const Site& site, std::uint64_t seed,
             const CaseProgress& progress, RunCase& result) {
  const SiteWorkspace workspace(plan.workspace_bytes(), site.stream());
  poison_outputs(operands);
  operands.stage(site);
  const auto forward = [&] {
    plan.mlp.forward(operands.staged_forward(), workspace.get(), site.stream());
  };
  const auto backward = [&] {
    plan.mlp.backward(operands.staged_backward(), workspace.get(), site.stream());
  };
  forward();
  backward();
  operands.fetch(site);
  result.check = check_all(plan.mlp.problem(), operands, seed);
  progress(plan.strategy, kCheckedShare);
  if (result.rows == 0) return;
  const CpuLoadMeter meter;
  const std::vector<std::vector<double>> halves =
      time_steps(site, plan.strategy, {forward, backward});
  const CpuLoad load = meter.stop();
  std::vector<double> samples(halves[0].size());
  std::transform(halves[0].begin(), halves[0].end(), halves[1].begin(), samples.begin(),
                 std::plus<>());
  set_times(result, samples, load);
  result.forward_seconds = median(halves[0]);
  result.backward_seconds = median(halves[1]);
}

}  // namespace

void run_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
             std::uint64_t seed, const CaseProgress& progress, RunResults& results) {
  end_offsets(record.counts);  // refuses rows past int32 before the problem is looked at
  const ExpertMlpProblem problem =
      mlp_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
  const std::vector<PlannedMlp> planned = plan_all(record, flags, device, problem, results);
  if (planned.empty()) return;
  require_memory(memory_need(problem, planned));
  MlpTensors operands = make_tensors(problem, record, seed);
  const Site site(device.device);
  // Forward: 4dh for U and 2dh for Y per row. Backward: twice that, for inputs and weights.
  // Recomputing U adds 4dh of work that brings nothing new.
  const std::int64_t useful_per_row = 18 * problem.d * problem.h;
  const std::int64_t recompute_per_row = flags.recompute ? 4 * problem.d * problem.h : 0;
  const std::size_t before = results.cases.size();
  for (const PlannedMlp& plan : planned) {
    progress(plan.strategy, 0);
    RunCase result = describe_case(record, flags, device, plan.strategy);
    result.implementation = plan.mlp.implementation();
    result.useful_flops = result.rows * useful_per_row;
    result.executed_flops =
        executed_rows(record, flags, result) * (useful_per_row + recompute_per_row);
    measure(plan, operands, site, seed, progress, result);
    results.cases.push_back(std::move(result));
  }
  std::vector<RunCase*> same;
  for (std::size_t i = before; i < results.cases.size(); ++i) same.push_back(&results.cases[i]);
  set_grouped(same);
}

}  // namespace moesaic::cli
