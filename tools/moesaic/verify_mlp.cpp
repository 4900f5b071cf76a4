// SPDX-License-Identifier: Apache-2.0
// verify: the SwiGLU layer, forward and backward, every order and both ways to keep activations;
// rows of x by an index, and weights of rows.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "case_table.hpp"
#include "mlp_fixture.hpp"
#include "operands.hpp"
#include "verify.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kWidth = 40, kHidden = 24;

CaseOutcome mlp_case(const ExpertMlp& mlp, MlpFixture& fixture, const Site& site) {
  const SiteWorkspace workspace(workspace_bytes(mlp), site.stream());
  fixture.reset();
  fixture.run(mlp, workspace.get(), site);
  CaseOutcome outcome{fixture.check(), {}};
  if (mlp.problem().x_rows == XRows::in_order) {
    outcome.check.merge(fixture.check_alias(mlp, workspace.get(), site));
  }
  const DeviceFault fault = read_fault(workspace.get(), site.stream());
  if (fault.kind != DeviceFault::Kind::none) {
    outcome.failure = "read_fault: expected no fault, got " + fault_words(fault);
  }
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

void mlp_cases(Verifier& verifier, const std::string& start, const Histogram& histogram,
               const ExpertMlpProblem& problem, XOrder order) {
  if (!verifier.selected(start)) return;
  MlpFixture fixture(problem, end_offsets(histogram.counts), order, verifier.seed());
  for (const MlpChoice& choice : mlp_choices(verifier, problem)) {
    verifier.run(start + ":" + choice.name,
                 [&] { return mlp_case(choice.plan(), fixture, verifier.site()); });
  }
}

/// "mixed:bf16:up_gate:save"
std::string name_of(const Histogram& histogram, const ExpertMlpProblem& problem) {
  return histogram.name + ":" + std::string(dtype_word(problem.format)) + ":" +
         std::string(name(problem.order)) + ":" + std::string(name(problem.activations));
}

/// Where rows come from and whether they have weights. Every order of up and gate is there, though
/// not with everything.
struct RowKind {
  const char* name;
  XOrder x_order;
  bool row_weights;
  UpGateOrder order;
  bool long_segments;  ///< Also with more rows of an expert than a tile has.
};
constexpr RowKind kRowKinds[] = {
    {"reversed", XOrder::reversed, false, UpGateOrder::gate_up, true},
    {"repeated", XOrder::repeated, false, UpGateOrder::up_gate, false},
    {"outside", XOrder::outside, false, UpGateOrder::interleaved, false},
    {"weighted", XOrder::in_order, true, UpGateOrder::interleaved, false},
    {"repeated_weighted", XOrder::repeated, true, UpGateOrder::up_gate, true},
};

void row_cases(Verifier& verifier, const Histogram& histogram, Format format, const RowKind& kind) {
  for (const Activations mode : {Activations::save, Activations::recompute}) {
    ExpertMlpProblem problem = problem_of(histogram, format, kind.order, mode);
    problem.row_weights = kind.row_weights;
    if (kind.x_order != XOrder::in_order) problem.x_rows = XRows::indexed;
    mlp_cases(verifier, name_of(histogram, problem) + ":" + kind.name, histogram, problem,
              kind.x_order);
  }
}

}  // namespace

std::vector<MlpChoice> mlp_choices(Verifier& verifier, const ExpertMlpProblem& problem) {
  std::vector<MlpChoice> result;
  const DeviceInfo& device = verifier.device();
  for (const auto& [strategy, implementation] : verifier.choices(product_of(problem))) {
    ExpertMlpProblem asked = problem;
    asked.strategy = strategy;
    const auto plan = [asked, &device, options = PlanOptions{.implementation = implementation}] {
      return ExpertMlp::plan(asked, device, options);
    };
    if (const std::string why = why_unsupported(plan); !why.empty()) {
      verifier.skip("mlp: " + why);
    } else {
      result.push_back({implementation, plan});
    }
  }
  const auto plan = [problem, &device] { return ExpertMlp::plan(problem, device); };
  std::string chosen = "unnamed";  // stays where planning fails, which the case then reports
  const std::string why = why_unsupported([&] {
    ExpertMlp mlp = plan();
    chosen = mlp.implementation();
    return mlp;
  });
  if (!why.empty()) return result;
  const bool known = std::any_of(result.begin(), result.end(),
                                 [&](const MlpChoice& choice) { return choice.name == chosen; });
  if (!known) result.push_back({chosen, plan});
  return result;
}

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
          const ExpertMlpProblem problem = problem_of(one, format, order, mode);
          mlp_cases(verifier, name_of(one, problem), one, problem, XOrder::in_order);
        }
      }
    }
  }
}

void verify_mlp_rows(Verifier& verifier) {
  verifier.group("mlp_rows", "the same with x_rows and row_weights; NaN in rows that nobody is");
  for (const Format format : {Format::bf16, Format::f32}) {
    if (!verifier.wants_mlp(format)) continue;
    for (const RowKind& kind : kRowKinds) {
      row_cases(verifier, histogram("mostly_unused"), format, kind);
      if (kind.long_segments && !verifier.quick()) {
        row_cases(verifier, histogram("mixed"), format, kind);
      }
    }
  }
}

}  // namespace moesaic::cli
