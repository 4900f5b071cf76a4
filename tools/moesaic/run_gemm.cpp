// SPDX-License-Identifier: Apache-2.0
// One record through the grouped product by every strategy: operands once, output poisoned before
// each.
#include <algorithm>
#include <utility>

#include "compare.hpp"
#include "machine.hpp"
#include "operands.hpp"
#include "run.hpp"
#include "stats.hpp"

namespace moesaic::cli {
namespace {

struct PlannedGemm {
  Strategy strategy;
  GroupedGemm gemm;
};

struct Operands {
  HostTensor a, b, d;
  std::vector<std::int32_t> offs;
};

std::vector<std::int64_t> shape_a(const GroupedGemmProblem& p) {
  return {p.max_rows, p.pass == Pass::forward ? p.k : p.n};
}
std::vector<std::int64_t> shape_b(const GroupedGemmProblem& p) {
  if (p.pass == Pass::wgrad) return {p.max_rows, p.k};
  return {p.num_experts, p.n, p.k};
}
std::vector<std::int64_t> shape_d(const GroupedGemmProblem& p) {
  if (p.pass == Pass::wgrad) return {p.num_experts, p.n, p.k};
  return {p.max_rows, p.pass == Pass::forward ? p.n : p.k};
}

double elements(const std::vector<std::int64_t>& shape) {
  double product = 1;
  for (const std::int64_t extent : shape) product *= static_cast<double>(extent);
  return product;
}

Operands make_operands(const GroupedGemmProblem& problem, const routing::Record& record,
                       std::uint64_t seed) {
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  Operands operands;
  operands.offs = end_offsets(record.counts);
  operands.a = HostTensor(dtype, shape_a(problem));
  operands.b = HostTensor(dtype, shape_b(problem));
  operands.d = HostTensor(problem.d_dtype, shape_d(problem));
  const bool forward = problem.pass == Pass::forward;
  fill_normal(operands.a, kActivationScale, seed, forward ? OperandStream::x : OperandStream::dy);
  if (problem.pass == Pass::wgrad) {
    fill_normal(operands.b, kActivationScale, seed, OperandStream::x);
  } else {
    fill_normal(operands.b, kWeightScale, seed, OperandStream::weights);
  }
  return operands;
}

/// Plans every strategy first, so that one that was asked for by name and cannot run is refused
/// before any work, and so that the largest workspace is known.
std::vector<PlannedGemm> plan_all(const routing::Record& record, const RunFlags& flags,
                                  const DeviceInfo& device, GroupedGemmProblem problem,
                                  RunResults& results) {
  std::vector<PlannedGemm> planned;
  for (const Strategy strategy : flags.strategies) {
    problem.strategy = strategy;
    try {
      planned.push_back({strategy, GroupedGemm::plan(problem, device)});
    } catch (const Error& error) {
      skip_or_throw(record, flags, strategy, error, results);
    }
  }
  return planned;
}

double needed_bytes(const GroupedGemmProblem& problem, std::span<const PlannedGemm> planned) {
  std::size_t workspace_bytes = 0;
  for (const PlannedGemm& plan : planned) {
    workspace_bytes = std::max(workspace_bytes, plan.gemm.workspace_bytes());
  }
  const double element = problem.format == Format::bf16 ? 2 : 4;
  return element * (elements(shape_a(problem)) + elements(shape_b(problem)) +
                    elements(shape_d(problem))) +
         static_cast<double>(workspace_bytes);
}

const char* output_name(Pass pass) {
  return pass == Pass::forward ? "y" : pass == Pass::dgrad ? "dx" : "dw";
}

/// Checks the first execute, then times more of them.
void measure(const GroupedGemm& gemm, Operands& operands, std::uint64_t seed,
             const CaseProgress& progress, RunCase& result) {
  const GroupedGemmArgs args{.a = {operands.a.view(), {}},
                             .b = {operands.b.view(), {}},
                             .offs = view(std::span<const std::int32_t>(operands.offs),
                                          {static_cast<std::int64_t>(operands.offs.size())}),
                             .d = operands.d.view()};
  const HostWorkspace workspace(gemm.workspace_bytes());
  const auto work = [&] { gemm.execute(args, workspace.get(), Stream::cpu()); };
  operands.d.poison();
  work();
  progress(gemm.problem().strategy, kFirstExecuteShare);
  const Pass pass = gemm.problem().pass;
  result.check = find_unwritten(output_name(pass), operands.d, operands.offs);
  result.check.merge(check_grouped_gemm(gemm.problem(), args, {.seed = seed}));
  progress(gemm.problem().strategy, kCheckedShare);
  const std::vector<double> samples = time_samples(work);
  result.seconds = median(samples);
  result.samples = static_cast<std::int64_t>(samples.size());
}

}  // namespace

void run_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
              std::uint64_t seed, const CaseProgress& progress, RunResults& results) {
  end_offsets(record.counts);  // refuses rows past int32 before the problem is looked at
  const GroupedGemmProblem problem =
      gemm_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
  const std::vector<PlannedGemm> planned = plan_all(record, flags, device, problem, results);
  if (planned.empty()) return;
  require_memory(needed_bytes(problem, planned));
  Operands operands = make_operands(problem, record, seed);
  const std::int64_t flops_per_row = 2 * problem.n * problem.k;
  for (const PlannedGemm& plan : planned) {
    progress(plan.strategy, 0);
    RunCase result = describe_case(record, flags, device, plan.strategy);
    result.implementation = plan.gemm.implementation();
    result.useful_flops = result.rows * flops_per_row;
    result.executed_flops = executed_rows(record, flags, result) * flops_per_row;
    measure(plan.gemm, operands, seed, progress, result);
    results.cases.push_back(std::move(result));
  }
}

}  // namespace moesaic::cli
