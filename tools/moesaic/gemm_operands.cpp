// SPDX-License-Identifier: Apache-2.0
// Operands and plans of one record's grouped product.
#include "gemm_operands.hpp"

#include <algorithm>
#include <utility>

#include "arguments.hpp"
#include "compare.hpp"
#include "operands.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

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

/// @throws Error{invalid_argument} naming those of the device when none has this name.
Support support_of(const std::string& implementation, const std::vector<Candidate>& candidates) {
  std::vector<std::string> known;
  for (const Candidate& candidate : candidates) {
    if (candidate.implementation == implementation) return candidate.support;
    known.push_back(candidate.implementation);
  }
  refuse("--implementation", "all, or some of " + join(known, ", "), implementation);
}

/// The names of `flags`; of `all` those of the grouped product that take this problem and that no
/// plan chose.
std::vector<std::string> named_implementations(const RunFlags& flags,
                                               const GroupedGemmProblem& problem,
                                               const DeviceInfo& device,
                                               std::span<const PlannedGemm> planned) {
  if (flags.implementations != std::vector<std::string>{"all"}) return flags.implementations;
  std::vector<std::string> names;
  for (const Candidate& candidate : GroupedGemm::candidates(problem, device)) {
    const std::string& name = candidate.implementation;
    const bool chosen = std::any_of(planned.begin(), planned.end(), [&](const PlannedGemm& plan) {
      return plan.gemm.implementation() == name;
    });
    if (chosen || strategy_of(name) != Strategy::grouped) continue;
    if (support_of(name, GroupedGemm::candidates(problem, device, {.implementation = name}))) {
      names.push_back(name);
    }
  }
  return names;
}

const char* output_name(Pass pass) {
  return pass == Pass::forward ? "y" : pass == Pass::dgrad ? "dx" : "dw";
}

}  // namespace

std::vector<PlannedGemm> plan_strategies(const routing::Record& record, const RunFlags& flags,
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
  problem.strategy = Strategy::grouped;
  for (const std::string& name : named_implementations(flags, problem, device, planned)) {
    problem.strategy = strategy_of(name);
    const PlanOptions options{.implementation = name};
    const Support support = support_of(name, GroupedGemm::candidates(problem, device, options));
    if (support) {
      planned.push_back({problem.strategy, GroupedGemm::plan(problem, device, options), true});
    } else {
      results.skipped.push_back({place_of(record) + ", " + name, support.reason});
    }
  }
  return planned;
}

MemoryNeed memory_need(const GroupedGemmProblem& problem, std::span<const PlannedGemm> planned,
                       const DeviceInfo& device) {
  std::size_t workspace_bytes = 0;
  if (device.device.kind == DeviceKind::cpu) {
    for (const PlannedGemm& plan : planned) {
      workspace_bytes = std::max(workspace_bytes, plan.gemm.workspace_bytes());
    }
  }
  const double element = problem.format == Format::bf16 ? 2 : 4;
  const bool wgrad = problem.pass == Pass::wgrad;
  const double weights = elements(wgrad ? shape_d(problem) : shape_b(problem));
  const double rows =
      elements(shape_a(problem)) + elements(wgrad ? shape_b(problem) : shape_d(problem));
  return {element * weights, element * rows + static_cast<double>(workspace_bytes)};
}

GemmTensors make_operands(const GroupedGemmProblem& problem, const routing::Record& record,
                          std::uint64_t seed) {
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  GemmTensors tensors;
  tensors.offs = end_offsets(record.counts);
  tensors.a = HostTensor(dtype, shape_a(problem));
  tensors.b = HostTensor(dtype, shape_b(problem));
  tensors.d = HostTensor(problem.d_dtype, shape_d(problem));
  const bool forward = problem.pass == Pass::forward;
  fill_normal(tensors.a, kActivationScale, seed, forward ? OperandStream::x : OperandStream::dy);
  if (problem.pass == Pass::wgrad) {
    fill_normal(tensors.b, kActivationScale, seed, OperandStream::x);
  } else {
    fill_normal(tensors.b, kWeightScale, seed, OperandStream::weights);
  }
  return tensors;
}

CheckResult execute_and_check(const GroupedGemm& gemm, GemmTensors& tensors,
                              const SiteWorkspace& workspace, const Site& site,
                              std::uint64_t seed) {
  const GroupedGemmProblem& problem = gemm.problem();
  const CheckOptions options{.seed = seed};
  tensors.poison_output(site);
  gemm.execute(tensors.staged(), workspace.get(), site.stream());
  CheckResult check = tensors.find_unwritten_output(output_name(problem.pass), site);
  if (problem.pass == Pass::wgrad) {
    tensors.fetch(site);
  } else {
    tensors.fetch_rows(checked_rows(problem, tensors.offs, options), site);
  }
  check.merge(check_grouped_gemm(problem, tensors.args(), options));
  return check;
}

}  // namespace moesaic::cli
