// SPDX-License-Identifier: Apache-2.0
// verify: offsets that are wrong, and rows beyond the capacity of a padded batch.
#include <algorithm>
#include <utility>

#include "arguments.hpp"
#include "case_table.hpp"
#include "compare.hpp"
#include "gemm_fixture.hpp"
#include "operands.hpp"
#include "text.hpp"
#include "verify.hpp"

namespace moesaic::cli {

std::string fault_words(const DeviceFault& fault) {
  switch (fault.kind) {
    case DeviceFault::Kind::none:
      return "no fault";
    case DeviceFault::Kind::offs_not_monotonic:
      return format("offs_not_monotonic at expert %d, value %lld", fault.expert,
                    static_cast<long long>(fault.value));
    case DeviceFault::Kind::offs_out_of_range:
      return format("offs_out_of_range at expert %d, value %lld", fault.expert,
                    static_cast<long long>(fault.value));
  }
  return "an unknown fault";
}

namespace {

struct Kind {
  Pass pass;
  Format format;
  [[nodiscard]] std::string name() const {
    return std::string(moesaic::name(pass)) + ":" + std::string(dtype_word(format));
  }
};

std::vector<Kind> kinds(const Verifier& verifier) {
  std::vector<Kind> result;
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const Format format : {Format::bf16, Format::f32}) {
      if (verifier.wants(pass, format)) result.push_back({pass, format});
    }
  }
  return result;
}

GroupedGemmProblem problem_of(const Kind& kind, std::size_t experts, std::int64_t rows) {
  GroupedGemmProblem problem;
  problem.pass = kind.pass;
  problem.format = kind.format;
  problem.d_dtype = kind.format == Format::bf16 ? DType::bf16 : DType::f32;
  problem.num_experts = static_cast<int>(experts);
  problem.max_rows = rows;
  problem.n = 24;
  problem.k = 40;
  return problem;
}

DeviceFault expected_fault(const BadOffsets& bad) {
  return {bad.not_monotonic ? DeviceFault::Kind::offs_not_monotonic
                            : DeviceFault::Kind::offs_out_of_range,
          bad.expert, bad.offs[static_cast<std::size_t>(bad.expert)]};
}

CaseOutcome fault_case(const GroupedGemm& gemm, GemmFixture& fixture, const HostTensor& want,
                       const BadOffsets& bad, const Site& site) {
  const SiteWorkspace workspace(gemm.workspace_bytes(), site.stream());
  fixture.reset();
  execute_there(gemm, fixture, workspace, site);
  CaseOutcome outcome{compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()),
                      {}};
  const std::string came = fault_words(read_fault(workspace.get(), site.stream()));
  const std::string wanted = fault_words(expected_fault(bad));
  const std::string again = fault_words(read_fault(workspace.get(), site.stream()));
  if (came != wanted) {
    outcome.failure = "read_fault: expected " + wanted + ", got " + came;
  } else if (again != "no fault") {
    outcome.failure = "read_fault, second call: expected no fault, got " + again;
  }
  return outcome;
}

GroupedGemm plan(const Verifier& verifier, GroupedGemmProblem problem,
                 const Verifier::Choice& choice) {
  problem.strategy = choice.strategy;
  return GroupedGemm::plan(problem, verifier.device(), {.implementation = choice.implementation});
}

}  // namespace

void verify_faults(Verifier& verifier) {
  verifier.group("faults", "wrong offsets: the lowest bad expert on record, the others computed");
  for (const BadOffsets& bad : bad_offsets()) {
    for (const Kind& kind : kinds(verifier)) {
      const std::string start = bad.name + ":" + kind.name();
      if (!verifier.selected(start) || (bad.overlap && kind.pass != Pass::wgrad)) continue;
      const GroupedGemmProblem problem = problem_of(kind, bad.offs.size(), kBadOffsetsCapacity);
      GemmFixture fixture(problem, bad.offs, Contents::integers, verifier.seed());
      const HostTensor want = fixture.expected();
      for (const Verifier::Choice& choice : verifier.choices(problem)) {
        verifier.run(start + ":" + choice.implementation, [&] {
          return fault_case(plan(verifier, problem, choice), fixture, want, bad, verifier.site());
        });
      }
    }
  }
}

namespace {

std::int64_t rows_beyond(const std::vector<std::int64_t>& counts, std::int64_t capacity) {
  std::int64_t rows = 0;
  for (const std::int64_t count : counts) rows += std::max<std::int64_t>(0, count - capacity);
  return rows;
}

CaseOutcome overflow_case(const GroupedGemm& gemm, GemmFixture& fixture, const HostTensor& want,
                          std::int64_t overflow, const Site& site) {
  const SiteWorkspace workspace(gemm.workspace_bytes(), site.stream());
  fixture.reset();
  execute_there(gemm, fixture, workspace, site);
  CaseOutcome outcome{compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs()),
                      {}};
  const std::int64_t came = read_overflow_rows(workspace.get(), site.stream());
  if (came != overflow) {
    outcome.failure = "read_overflow_rows: expected " + std::to_string(overflow) + ", got " +
                      std::to_string(came);
  }
  return outcome;
}

void overflow_cases(Verifier& verifier, const Histogram& histogram, const std::string& factor,
                    const Kind& kind) {
  const std::string start = histogram.name + ":" + factor + ":" + kind.name();
  if (!verifier.selected(start)) return;
  GroupedGemmProblem problem = problem_of(kind, histogram.counts.size(), histogram.capacity);
  problem.capacity = parse_capacity(factor);
  const std::int64_t overflow = rows_beyond(
      histogram.counts, capacity_rows(problem.capacity, problem.max_rows, problem.num_experts));
  GemmFixture fixture(problem, end_offsets(histogram.counts), Contents::integers, verifier.seed());
  const HostTensor want = fixture.expected();
  for (const Verifier::Choice& choice : verifier.choices(problem)) {
    if (choice.strategy != Strategy::padded_bmm) continue;
    verifier.run(start + ":" + choice.implementation, [&] {
      return overflow_case(plan(verifier, problem, choice), fixture, want, overflow,
                           verifier.site());
    });
  }
}

}  // namespace

void verify_overflow(Verifier& verifier) {
  verifier.group("overflow", "padded_bmm: rows beyond the capacity counted and computed");
  for (const char* factor : {"0.5", "1.25", "0.01", "1:eight_row:2"}) {
    for (const char* which : {"mixed", "hot_ninety", "eights_and_gaps", "all_empty"}) {
      const Histogram& one = histogram(which);
      if (verifier.quick() && !one.quick) continue;
      for (const Kind& kind : kinds(verifier)) overflow_cases(verifier, one, factor, kind);
    }
  }
}

}  // namespace moesaic::cli
