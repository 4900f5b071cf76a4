// SPDX-License-Identifier: Apache-2.0
// verify: the SwiGLU layer, forward and backward, every order and both ways to keep activations.
#include <algorithm>
#include <functional>
#include <utility>

#include "arguments.hpp"
#include "case_table.hpp"
#include "compare.hpp"
#include "gemm_fixture.hpp"
#include "mlp_tensors.hpp"
#include "operands.hpp"
#include "verify.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kWidth = 40, kHidden = 24, kGuardBytes = 1024;

/// Operands of one layer: NaN in the tails, gaps and guards; poison in every output.
struct Layer : MlpTensors {
  std::vector<GemmFixture::Rows> inside;

  Layer(const ExpertMlpProblem& problem, const Histogram& histogram, std::uint64_t seed);
};

Layer::Layer(const ExpertMlpProblem& problem, const Histogram& histogram, std::uint64_t seed) {
  offs = end_offsets(histogram.counts);
  const DType dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  const std::int64_t rows = problem.max_rows, experts = problem.num_experts;
  const auto make = [](DType type, std::vector<std::int64_t> shape) {
    HostTensor tensor(type, std::move(shape), {16 / size_bytes(type), kGuardBytes, 16});
    tensor.poison();
    return tensor;
  };
  x = make(dtype, {rows, problem.d});
  dy = make(dtype, {rows, problem.d});
  w_up_gate = make(dtype, {experts, 2 * problem.h, problem.d});
  w_down = make(dtype, {experts, problem.d, problem.h});
  y = make(dtype, {rows, problem.d});
  dx = make(dtype, {rows, problem.d});
  dw_up_gate = make(problem.wgrad_dtype, {experts, 2 * problem.h, problem.d});
  dw_down = make(problem.wgrad_dtype, {experts, problem.d, problem.h});
  if (problem.activations == Activations::save) u = make(dtype, {rows, 2 * problem.h});
  fill_normal(x, 1, seed, OperandStream::x);
  fill_normal(dy, 1, seed, OperandStream::dy);
  // U of order one, so that silu is neither flat nor linear.
  fill_normal(w_up_gate, 0.15, seed, OperandStream::weights);
  fill_normal(w_down, 0.15, seed, OperandStream::down_weights);
  fill_nan_rows(x, offs.back(), rows);
  fill_nan_rows(dy, offs.back(), rows);
  inside.push_back({0, offs.back()});
}

/// Rows that no expert has, gaps and guards of an output are as before.
CheckResult outside_check(const char* name, const HostTensor& got, const HostTensor& before,
                          const Layer& layer) {
  const std::vector<GemmFixture::Rows> everything = {{0, got.rows()}};
  const bool rows = got.view().rank == 2;
  return compare_exactly(
      name, got, outside_as_before(got, before, rows ? layer.inside : everything), layer.offs);
}

/// dx in the very memory of x gives the same bits.
CheckResult alias_check(const ExpertMlp& mlp, Layer& layer, Workspace workspace, const Site& site) {
  const HostTensor x_before = layer.x.clone(), dx = layer.dx.clone();
  layer.stage(site);
  ExpertMlpBackwardArgs args = layer.staged_backward();
  args.dx = layer.staged_x();
  mlp.backward(args, workspace, site.stream());
  layer.fetch_x(site);
  HostTensor want = x_before.clone();
  for (std::int64_t row = 0; row < layer.offs.back(); ++row) {
    for (std::int64_t column = 0; column < dx.width(); ++column) {
      want.set(row, column, dx.get(row, column));
    }
  }
  CheckResult check = compare_exactly("dx in place of x", layer.x, want, layer.offs);
  layer.x.copy_from(x_before);
  return check;
}

CaseOutcome mlp_case(const ExpertMlp& mlp, const Histogram& histogram, std::uint64_t seed,
                     const Site& site) {
  const CheckOptions all{.rows_per_expert = -1, .elements_per_expert = -1, .seed = seed};
  Layer layer(mlp.problem(), histogram, seed);
  const HostTensor y = layer.y.clone(), dx = layer.dx.clone(), dw = layer.dw_up_gate.clone(),
                   dw_down = layer.dw_down.clone();
  const SiteWorkspace workspace(
      std::max(mlp.forward_workspace_bytes(), mlp.backward_workspace_bytes()), site.stream());
  layer.stage(site);
  mlp.forward(layer.staged_forward(), workspace.get(), site.stream());
  mlp.backward(layer.staged_backward(), workspace.get(), site.stream());
  layer.fetch(site);
  CaseOutcome outcome;
  outcome.check = check_expert_mlp_forward(mlp.problem(), layer.forward_args(), all);
  outcome.check.merge(check_expert_mlp_backward(mlp.problem(), layer.backward_args(), all));
  outcome.check.merge(outside_check("y", layer.y, y, layer));
  outcome.check.merge(outside_check("dx", layer.dx, dx, layer));
  outcome.check.merge(outside_check("dw_up_gate", layer.dw_up_gate, dw, layer));
  outcome.check.merge(outside_check("dw_down", layer.dw_down, dw_down, layer));
  outcome.check.merge(alias_check(mlp, layer, workspace.get(), site));
  return outcome;
}

ExpertMlpProblem problem_of(const Histogram& histogram, Format format, UpGateOrder order,
                            Activations activations) {
  return {.format = format,
          .num_experts = static_cast<int>(histogram.counts.size()),
          .max_rows = histogram.capacity,
          .d = kWidth,
          .h = kHidden,
          .order = order,
          .activations = activations,
          .tail = Tail::leave,
          .wgrad_dtype = format == Format::bf16 ? DType::bf16 : DType::f32,
          .accumulate_wgrad = false,
          .strategy = Strategy::grouped,
          .capacity = {}};
}

/// The up and gate product, which decides what can run.
GroupedGemmProblem product_of(const ExpertMlpProblem& mlp) {
  GroupedGemmProblem problem;
  problem.format = mlp.format;
  problem.d_dtype = mlp.wgrad_dtype;
  problem.num_experts = mlp.num_experts;
  problem.max_rows = mlp.max_rows;
  problem.n = 2 * mlp.h;
  problem.k = mlp.d;
  return problem;
}

/// The reason when the layer cannot be planned here at all; other errors are a case's to report.
std::string why_unsupported(const std::function<ExpertMlp()>& plan) {
  try {
    plan();
    return {};
  } catch (const Error& error) {
    return error.code() == ErrorCode::unsupported ? error.what() : "";
  }
}

void mlp_cases(Verifier& verifier, const Histogram& histogram, ExpertMlpProblem problem) {
  const std::string start = histogram.name + ":" + std::string(dtype_word(problem.format)) + ":" +
                            std::string(name(problem.order)) + ":" +
                            std::string(name(problem.activations));
  if (!verifier.selected(start)) return;
  for (const Verifier::Choice& choice : verifier.choices(product_of(problem))) {
    problem.strategy = choice.strategy;
    const PlanOptions options{.implementation = choice.implementation};
    const auto plan = [&] { return ExpertMlp::plan(problem, verifier.device(), options); };
    if (const std::string why = why_unsupported(plan); !why.empty()) {
      verifier.skip("mlp: " + why);
      continue;
    }
    verifier.run(start + ":" + choice.implementation,
                 [&] { return mlp_case(plan(), histogram, verifier.seed(), verifier.site()); });
  }
}

}  // namespace

void verify_mlp(Verifier& verifier) {
  verifier.group("mlp", "SwiGLU forward and backward: y, dx, dw_up_gate, dw_down, dx over x");
  std::vector<std::string> histograms = {"odd_starts"};
  if (!verifier.quick())
    histograms.insert(histograms.end(), {"mostly_unused", "all_empty", "mixed"});
  for (const std::string& which : histograms) {
    for (const Format format : {Format::bf16, Format::f32}) {
      if (!verifier.wants_mlp(format)) continue;
      for (const UpGateOrder order :
           {UpGateOrder::up_gate, UpGateOrder::gate_up, UpGateOrder::interleaved}) {
        for (const Activations mode : {Activations::save, Activations::recompute}) {
          const Histogram& one = histogram(which);
          mlp_cases(verifier, one, problem_of(one, format, order, mode));
        }
      }
    }
  }
}

}  // namespace moesaic::cli
