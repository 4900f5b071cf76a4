// SPDX-License-Identifier: Apache-2.0
// verify: what must be refused before anything is written, by the argument's name.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compare.hpp"
#include "gemm_fixture.hpp"
#include "mlp_fixture.hpp"
#include "operands.hpp"
#include "text.hpp"
#include "verify.hpp"

namespace moesaic::cli {
namespace {

GroupedGemmProblem sound_problem() {
  GroupedGemmProblem problem;
  problem.pass = Pass::forward;
  problem.num_experts = 3;
  problem.max_rows = 24;
  problem.n = 24;
  problem.k = 40;
  return problem;
}

/// "" when `work` throws an Error whose message begins with `argument`.
std::string refusal_of(const std::string& argument, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(argument)) return {};
    return "expected a refusal that names " + argument + ", got: " + error.what();
  }
  return "expected a refusal that names " + argument + ", got none";
}

struct BadProblem {
  std::string name, argument;
  std::function<void(GroupedGemmProblem&)> spoil;
};

std::vector<BadProblem> bad_problems() {
  return {
      {"n_not_multiple_of_8", "n", [](GroupedGemmProblem& p) { p.n = 12; }},
      {"k_zero", "k", [](GroupedGemmProblem& p) { p.k = 0; }},
      {"no_experts", "num_experts", [](GroupedGemmProblem& p) { p.num_experts = 0; }},
      {"negative_rows", "max_rows", [](GroupedGemmProblem& p) { p.max_rows = -1; }},
      {"rows_past_int32", "max_rows",
       [](GroupedGemmProblem& p) { p.max_rows = std::int64_t{1} << 31; }},
      {"forward_accumulates", "accumulate", [](GroupedGemmProblem& p) { p.accumulate = true; }},
      {"f32_into_bf16", "d_dtype", [](GroupedGemmProblem& p) { p.format = Format::f32; }},
  };
}

struct BadArgs {
  std::string name, argument;
  std::function<void(GroupedGemmArgs&)> spoil;
};

const void* shifted(const void* data, std::ptrdiff_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

Device elsewhere(Device device) {
  if (device.kind == DeviceKind::cuda) return {};
  return {DeviceKind::cuda, 0};
}

std::vector<BadArgs> bad_args() {
  return {
      {"a_misaligned", "a",
       [](GroupedGemmArgs& x) { x.a.qdata.data = shifted(x.a.qdata.data, 2); }},
      {"a_null", "a", [](GroupedGemmArgs& x) { x.a.qdata.data = nullptr; }},
      {"a_row_stride", "a", [](GroupedGemmArgs& x) { x.a.qdata.stride[0] += 1; }},
      {"a_narrow_stride", "a", [](GroupedGemmArgs& x) { x.a.qdata.stride[0] = 8; }},
      {"a_last_stride", "a", [](GroupedGemmArgs& x) { x.a.qdata.stride[1] = 2; }},
      {"a_dtype", "a", [](GroupedGemmArgs& x) { x.a.qdata.dtype = DType::f32; }},
      {"a_device", "a", [](GroupedGemmArgs& x) { x.a.qdata.device = elsewhere(x.a.qdata.device); }},
      {"a_scales", "a", [](GroupedGemmArgs& x) { x.a.scales = x.a.qdata; }},
      {"b_rank", "b", [](GroupedGemmArgs& x) { x.b.qdata.rank = 2; }},
      {"b_experts", "b", [](GroupedGemmArgs& x) { x.b.qdata.shape[0] = 2; }},
      {"b_expert_stride", "b", [](GroupedGemmArgs& x) { x.b.qdata.stride[0] += 1; }},
      {"offs_length", "offs", [](GroupedGemmArgs& x) { x.offs.shape[0] = 2; }},
      {"offs_dtype", "offs", [](GroupedGemmArgs& x) { x.offs.dtype = DType::f32; }},
      {"offs_null", "offs", [](GroupedGemmArgs& x) { x.offs.data = nullptr; }},
      {"d_rows", "d", [](GroupedGemmArgs& x) { x.d.shape[0] -= 1; }},
      {"d_dtype", "d", [](GroupedGemmArgs& x) { x.d.dtype = DType::f32; }},
      {"d_over_a", "d", [](GroupedGemmArgs& x) { x.d.data = const_cast<void*>(x.a.qdata.data); }},
  };
}

void refuse_args(Verifier& verifier, const Verifier::Choice& choice) {
  GroupedGemmProblem problem = sound_problem();
  problem.strategy = choice.strategy;
  const std::vector<std::int64_t> counts = {7, 0, 11};
  GemmFixture fixture(problem, end_offsets(counts), Contents::integers, verifier.seed());
  const GroupedGemm gemm =
      GroupedGemm::plan(problem, verifier.device(), {.implementation = choice.implementation});
  const Site& site = verifier.site();
  const SiteWorkspace workspace(gemm.workspace_bytes(), site.stream());
  const auto untouched = [&] {
    fixture.tensors().fetch(site);
    return compare_exactly(fixture.output_name(), fixture.d(), fixture.before(), fixture.offs());
  };
  for (const BadArgs& bad : bad_args()) {
    verifier.run(bad.name + ":" + choice.implementation, [&] {
      fixture.reset();
      GroupedGemmArgs args = fixture.tensors().stage(site);
      bad.spoil(args);
      std::string failure =
          refusal_of(bad.argument, [&] { gemm.execute(args, workspace.get(), site.stream()); });
      return CaseOutcome{untouched(), std::move(failure)};
    });
  }
  verifier.run("workspace_too_small:" + choice.implementation, [&] {
    fixture.reset();
    const GroupedGemmArgs args = fixture.tensors().stage(site);
    Workspace small = workspace.get();
    small.bytes = small.bytes.first(small.bytes.size() - 1);
    std::string failure =
        refusal_of("workspace", [&] { gemm.execute(args, small, site.stream()); });
    return CaseOutcome{untouched(), std::move(failure)};
  });
}

ExpertMlpProblem sound_expert() {
  return {.num_experts = 3,
          .max_rows = 24,
          .d = 40,
          .h = 24,
          .order = UpGateOrder::up_gate,
          .row_weights = true,
          .x_rows = XRows::indexed};
}

/// What forward and backward say of rows in the same words.
struct Rows {
  ConstTensorView &x, &x_rows, &row_weights;
};
struct BadRows {
  std::string name, argument;
  std::function<void(Rows)> spoil;
};

std::vector<BadRows> bad_rows() {
  return {
      {"x_rows_missing", "x_rows", [](Rows r) { r.x_rows = {}; }},
      {"x_rows_length", "x_rows", [](Rows r) { r.x_rows.shape[0] -= 1; }},
      {"x_rows_dtype", "x_rows", [](Rows r) { r.x_rows.dtype = DType::f32; }},
      {"x_rows_stride", "x_rows", [](Rows r) { r.x_rows.stride[0] = 2; }},
      {"x_rows_null", "x_rows", [](Rows r) { r.x_rows.data = nullptr; }},
      {"x_rows_device", "x_rows", [](Rows r) { r.x_rows.device = elsewhere(r.x_rows.device); }},
      {"x_width", "x", [](Rows r) { r.x.shape[1] = 32; }},
      {"x_rows_past_int32", "x.shape[0]", [](Rows r) { r.x.shape[0] = std::int64_t{1} << 31; }},
      {"row_weights_missing", "row_weights", [](Rows r) { r.row_weights = {}; }},
      {"row_weights_length", "row_weights", [](Rows r) { r.row_weights.shape[0] += 1; }},
      {"row_weights_dtype", "row_weights", [](Rows r) { r.row_weights.dtype = DType::bf16; }},
      {"row_weights_null", "row_weights", [](Rows r) { r.row_weights.data = nullptr; }},
  };
}

CaseOutcome refused_rows(const ExpertMlp& mlp, MlpFixture& fixture, const BadRows& bad,
                         const Site& site) {
  const SiteWorkspace workspace(workspace_bytes(mlp), site.stream());
  fixture.reset();
  fixture.tensors().stage(site);
  ExpertMlpForwardArgs forward = fixture.tensors().staged_forward();
  ExpertMlpBackwardArgs backward = fixture.tensors().staged_backward();
  bad.spoil({forward.x, forward.x_rows, forward.row_weights});
  bad.spoil({backward.x, backward.x_rows, backward.row_weights});
  std::string failure =
      refusal_of(bad.argument, [&] { mlp.forward(forward, workspace.get(), site.stream()); });
  if (failure.empty()) {
    failure =
        refusal_of(bad.argument, [&] { mlp.backward(backward, workspace.get(), site.stream()); });
  }
  fixture.tensors().fetch(site);
  return {fixture.check_untouched(), std::move(failure)};
}

void refuse_expert(Verifier& verifier) {
  const ExpertMlpProblem problem = sound_expert();
  MlpFixture fixture(problem, end_offsets(std::vector<std::int64_t>{7, 0, 11}), XOrder::repeated,
                     verifier.seed());
  for (const MlpChoice& choice : mlp_choices(verifier, problem)) {
    for (const BadRows& bad : bad_rows()) {
      verifier.run("mlp:" + bad.name + ":" + choice.name,
                   [&] { return refused_rows(choice.plan(), fixture, bad, verifier.site()); });
    }
  }
}

void refuse_product(Verifier& verifier) {
  for (const BadProblem& bad : bad_problems()) {
    verifier.run("plan:" + bad.name, [&] {
      GroupedGemmProblem problem = sound_problem();
      bad.spoil(problem);
      return CaseOutcome{{}, refusal_of(bad.argument, [&] {
                           (void)GroupedGemm::plan(problem, verifier.device());
                         })};
    });
  }
  for (const Verifier::Choice& choice : verifier.choices(sound_problem())) {
    refuse_args(verifier, choice);
  }
}

}  // namespace

void verify_refusals(Verifier& verifier) {
  verifier.group("refusals", "bad problems and arguments: refused by name, nothing written");
  if (verifier.wants(Pass::forward, Format::bf16)) refuse_product(verifier);
  if (verifier.wants_mlp(Format::bf16)) refuse_expert(verifier);
}

}  // namespace moesaic::cli
