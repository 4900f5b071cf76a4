// SPDX-License-Identifier: Apache-2.0
// verify: what must be refused before anything is written, by the argument's name.
#include <functional>
#include <utility>

#include "compare.hpp"
#include "gemm_fixture.hpp"
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

}  // namespace

void verify_refusals(Verifier& verifier) {
  verifier.group("refusals", "bad problems and arguments: refused by name, nothing written");
  if (!verifier.wants(Pass::forward, Format::bf16)) return;
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

}  // namespace moesaic::cli
