// SPDX-License-Identifier: Apache-2.0
// verify: values. Integers for equal bits, normal numbers for the bound, accumulation, repetition.
#include <cstring>
#include <utility>

#include "arguments.hpp"
#include "case_table.hpp"
#include "compare.hpp"
#include "gemm_fixture.hpp"
#include "operands.hpp"
#include "verify.hpp"

namespace moesaic::cli {
namespace {

/// One way to call the product, without the implementation.
struct Variant {
  GroupedGemmProblem problem;
  std::string name;  ///< "mixed:wgrad:bf16:f32_out:enk".
};

GroupedGemmProblem problem_of(const Histogram& histogram, Pass pass, Format format,
                              WeightStorage storage) {
  GroupedGemmProblem problem;
  problem.pass = pass;
  problem.format = format;
  problem.d_dtype = format == Format::bf16 ? DType::bf16 : DType::f32;
  problem.num_experts = static_cast<int>(histogram.counts.size());
  problem.max_rows = histogram.capacity;
  problem.n = histogram.n;
  problem.k = histogram.k;
  problem.weights = storage;
  return problem;
}

/// Both output types of wgrad, both tails where there is one.
void add_variants(std::vector<Variant>& variants, const Histogram& histogram,
                  const GroupedGemmProblem& base) {
  const std::string start = histogram.name + ":" + std::string(name(base.pass)) + ":" +
                            std::string(dtype_word(base.format)) + ":" +
                            std::string(name(base.weights));
  variants.push_back({base, start});
  if (base.pass == Pass::wgrad && base.format == Format::bf16) {
    Variant wide{base, start + ":f32_out"};
    wide.problem.d_dtype = DType::f32;
    variants.push_back(std::move(wide));
  }
  if (base.pass != Pass::wgrad && histogram.slack()) {
    Variant zeroed{base, start + ":zero_tail"};
    zeroed.problem.tail = Tail::zero;
    variants.push_back(std::move(zeroed));
  }
}

std::vector<Variant> variants_of(const Verifier& verifier, const Histogram& histogram) {
  std::vector<Variant> variants;
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const Format format : {Format::bf16, Format::f32}) {
      if (!verifier.wants(pass, format)) continue;
      for (const WeightStorage storage : {WeightStorage::enk, WeightStorage::ekn}) {
        add_variants(variants, histogram, problem_of(histogram, pass, format, storage));
      }
    }
  }
  return variants;
}

GroupedGemm plan(const Verifier& verifier, GroupedGemmProblem problem,
                 const Verifier::Choice& choice) {
  problem.strategy = choice.strategy;
  return GroupedGemm::plan(problem, verifier.device(), {.implementation = choice.implementation});
}

std::string case_name(const Variant& variant, const Verifier::Choice& choice) {
  return variant.name + ":" + choice.implementation;
}

void exact_cases(Verifier& verifier, const Histogram& histogram, const Variant& variant) {
  if (!verifier.selected(variant.name)) return;
  GemmFixture fixture(variant.problem, end_offsets(histogram.counts), Contents::integers,
                      verifier.seed());
  const HostTensor want = fixture.expected();
  for (const Verifier::Choice& choice : verifier.choices(variant.problem)) {
    verifier.run(case_name(variant, choice), [&] {
      fixture.reset();
      execute_once(plan(verifier, variant.problem, choice), fixture, verifier.site());
      return CaseOutcome{compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()),
                         {}};
    });
  }
}

}  // namespace

void verify_exact(Verifier& verifier) {
  verifier.group("exact", "integer operands: equal bits; tails, gaps, guards untouched");
  for (const Histogram& histogram : histograms()) {
    if (verifier.quick() && !histogram.quick) continue;
    for (const Variant& variant : variants_of(verifier, histogram)) {
      exact_cases(verifier, histogram, variant);
    }
  }
}

void verify_random(Verifier& verifier) {
  verifier.group("random", "normal operands: every element within the bound");
  for (const char* which : {"odd_starts", "mostly_unused", "mixed", "tile_edges", "sixty"}) {
    const Histogram& one = histogram(which);
    if (verifier.quick() && !one.quick) continue;
    for (const Variant& variant : variants_of(verifier, one)) {
      if (!verifier.selected(variant.name)) continue;
      GemmFixture fixture(variant.problem, end_offsets(one.counts), Contents::normal,
                          verifier.seed());
      for (const Verifier::Choice& choice : verifier.choices(variant.problem)) {
        verifier.run(case_name(variant, choice), [&] {
          fixture.reset();
          const GroupedGemm gemm = plan(verifier, variant.problem, choice);
          execute_once(gemm, fixture, verifier.site());
          return CaseOutcome{check_grouped_gemm(gemm.problem(), fixture.args(),
                                                {.rows_per_expert = -1, .elements_per_expert = -1}),
                             {}};
        });
      }
    }
  }
}

void verify_accumulate(Verifier& verifier) {
  verifier.group("accumulate", "wgrad added to the caller's f32 or bf16 buffer");
  for (const char* which : {"mixed", "all_empty", "empty_between_large", "mostly_unused"}) {
    const Histogram& one = histogram(which);
    if (verifier.quick() && !one.quick) continue;
    for (Variant variant : variants_of(verifier, one)) {
      if (variant.problem.pass != Pass::wgrad) continue;
      variant.problem.accumulate = true;
      exact_cases(verifier, one, variant);
    }
  }
}

namespace {

/// The experts' rows of d: rows of the buffer, or the rows of dw[e].
GemmFixture::Rows output_rows(const GemmFixture& fixture, const HostTensor& d, std::size_t expert) {
  if (d.view().rank == 2) return fixture.rows_of(expert);
  const std::int64_t per_expert = d.view().shape[1];
  const auto first = static_cast<std::int64_t>(expert) * per_expert;
  return {first, first + per_expert};
}

CaseOutcome repeat_case(const GroupedGemm& gemm, GemmFixture& fixture, std::size_t spoilt,
                        const Site& site) {
  const SiteWorkspace workspace(gemm.workspace_bytes(), site.stream());
  fixture.reset();
  execute_there(gemm, fixture, workspace, site);
  const HostTensor first = fixture.d().clone();
  fixture.reset();
  execute_there(gemm, fixture, workspace, site);
  CaseOutcome outcome{compare_exactly(fixture.output_name(), fixture.d(), first, fixture.offs()),
                      {}};
  // NaN in one expert's rows may change that expert's results and no other's.
  const GemmFixture::Rows rows = fixture.rows_of(spoilt);
  const HostTensor a = fixture.a().clone();
  fill_nan_rows(fixture.a(), rows.begin, rows.end);
  fixture.reset();
  execute_there(gemm, fixture, workspace, site);
  fixture.a().copy_from(a);
  const HostTensor want =
      outside_as_before(fixture.d(), first, {output_rows(fixture, fixture.d(), spoilt)});
  outcome.check.merge(compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()));
  // Nor may NaN that stayed behind in the workspace.
  fixture.reset();
  execute_there(gemm, fixture, workspace, site);
  outcome.check.merge(compare_exactly(fixture.output_name(), fixture.d(), first, fixture.offs()));
  return outcome;
}

}  // namespace

void verify_repeat(Verifier& verifier) {
  static constexpr std::size_t kSpoiltExpert = 1;
  verifier.group("repeat", "equal bits on every run, whatever a neighbour's rows hold");
  for (const char* which : {"mixed", "odd_starts", "tile_edges"}) {
    const Histogram& one = histogram(which);
    if (verifier.quick() && !one.quick) continue;
    for (const Variant& variant : variants_of(verifier, one)) {
      if (!verifier.selected(variant.name)) continue;
      GemmFixture fixture(variant.problem, end_offsets(one.counts), Contents::normal,
                          verifier.seed());
      for (const Verifier::Choice& choice : verifier.choices(variant.problem)) {
        verifier.run(case_name(variant, choice), [&] {
          return repeat_case(plan(verifier, variant.problem, choice), fixture, kSpoiltExpert,
                             verifier.site());
        });
      }
    }
  }
}

namespace {

/// One thread gives the same integers as many.
void one_thread_cases(Verifier& verifier, const Variant& variant, GemmFixture& fixture,
                      const HostTensor& want) {
  for (const Verifier::Choice& choice : verifier.choices(variant.problem)) {
    verifier.run(variant.name + ":one_thread:" + choice.implementation, [&] {
      GroupedGemmProblem problem = variant.problem;
      problem.strategy = choice.strategy;
      fixture.reset();
      execute_once(GroupedGemm::plan(problem, verifier.device(),
                                     {.implementation = choice.implementation, .num_sms = 1}),
                   fixture, verifier.site());
      return CaseOutcome{compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()),
                         {}};
    });
  }
}

/// Where an implementation promises it: the rows that are left keep their bits when the last expert
/// loses all rows but one.
void batch_invariant_cases(Verifier& verifier, const Histogram& histogram, const Variant& variant) {
  PlanOptions options;
  options.batch_invariant = true;
  for (const Verifier::Choice& choice : verifier.choices(variant.problem, &options)) {
    verifier.run(variant.name + ":batch_invariant:" + choice.implementation, [&] {
      GroupedGemmProblem problem = variant.problem;
      problem.strategy = choice.strategy;
      options.implementation = choice.implementation;
      const GroupedGemm gemm = GroupedGemm::plan(problem, verifier.device(), options);
      std::vector<std::int32_t> offs = end_offsets(histogram.counts);
      GemmFixture whole(problem, offs, Contents::normal, verifier.seed());
      execute_once(gemm, whole, verifier.site());
      offs.back() = offs[offs.size() - 2] + 1;
      GemmFixture part(problem, offs, Contents::normal, verifier.seed());
      execute_once(gemm, part, verifier.site());
      const HostTensor want = outside_as_before(whole.d(), part.before(), {{0, offs.back()}});
      return CaseOutcome{compare_exactly(part.output_name(), part.d(), want, offs), {}};
    });
  }
}

/// Weights packed by an explicit call in place of the weights, which may change afterwards.
void packed_cases(Verifier& verifier, const Variant& variant, GemmFixture& fixture,
                  const HostTensor& want) {
  const Site& site = verifier.site();
  for (const Verifier::Choice& choice : verifier.choices(variant.problem)) {
    const GroupedGemm gemm = plan(verifier, variant.problem, choice);
    PackedWeights packed;
    try {
      packed = gemm.pack_weights(fixture.tensors().stage(site).b, site.stream());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported) continue;  // it has no layout of its own
      throw;
    }
    verifier.run(variant.name + ":packed:" + choice.implementation, [&] {
      const HostTensor weights = fixture.b().clone();
      fixture.b().poison();
      fixture.reset();
      GroupedGemmArgs args = fixture.tensors().stage(site);
      args.b = {};
      args.packed_b = &packed;
      const SiteWorkspace workspace(gemm.workspace_bytes(), site.stream());
      gemm.execute(args, workspace.get(), site.stream());
      fixture.tensors().fetch(site);
      fixture.b().copy_from(weights);
      return CaseOutcome{compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()),
                         {}};
    });
  }
}

}  // namespace

void verify_options(Verifier& verifier) {
  verifier.group("options", "one thread, batch_invariant, packed weights: equal bits");
  for (const char* which :
       {"odd_starts", "mixed", "mostly_unused", "one_row_to_spare", "tile_edges"}) {
    const Histogram& one = histogram(which);
    if (verifier.quick() && !one.quick) continue;
    for (const Variant& variant : variants_of(verifier, one)) {
      if (!verifier.selected(variant.name)) continue;
      GemmFixture fixture(variant.problem, end_offsets(one.counts), Contents::integers,
                          verifier.seed());
      const HostTensor want = fixture.expected();
      one_thread_cases(verifier, variant, fixture, want);
      if (variant.problem.pass == Pass::wgrad) continue;
      packed_cases(verifier, variant, fixture, want);
      if (one.counts.back() > 1 && variant.problem.tail == Tail::leave) {
        batch_invariant_cases(verifier, one, variant);
      }
    }
  }
}

}  // namespace moesaic::cli
