// SPDX-License-Identifier: Apache-2.0
// moesaic verify: runs the groups, prints a line each, and for a failure the first wrong element
// with the command that repeats it.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "commands.hpp"
#include "json_output.hpp"
#include "machine.hpp"
#include "table.hpp"
#include "text.hpp"
#include "verify.hpp"

namespace moesaic::cli {
namespace {

constexpr std::size_t kShownFailures = 10;

using Group = void (*)(Verifier&);
constexpr Group kGroups[] = {verify_exact,        verify_random, verify_accumulate, verify_repeat,
                             verify_options,      verify_faults, verify_overflow,   verify_refusals,
                             verify_wide_strides, verify_mlp,    verify_mlp_rows};

std::string verify_text(const VerifyReport& report) {
  Table table({{"group", Align::left},
               {"cases"},
               {"elements compared"},
               {"worst / bound"},
               {"result", Align::left},
               {"what", Align::left}});
  std::int64_t cases = 0, elements = 0;
  for (const GroupReport& group : report.groups) {
    cases += group.cases;
    elements += group.elements;
    table.add({group.name, grouped_digits(group.cases), grouped_digits(group.elements),
               group.worst > 0 ? format("%.3f", group.worst) : "-",
               group.failed_cases == 0 ? "ok" : grouped_digits(group.failed_cases) + " WRONG",
               group.what});
  }
  return report.device + ", seed " + std::to_string(report.seed) + "\n\n" + table.text() +
         format("\n%s: %s elements in %s cases, %zu failed\n", report.ok() ? "ok" : "FAILED",
                grouped_digits(elements).c_str(), grouped_digits(cases).c_str(),
                report.failures.size());
}

void print_failure(const FailedCase& failed, const VerifyReport& report) {
  const CheckResult& check = failed.outcome.check;
  if (check.first) {
    const Mismatch& first = *check.first;
    std::fprintf(
        stderr,
        "moesaic verify: %s: %lld of %lld elements wrong; first %s (expert %lld, row %lld, "
        "column %lld, got %s, want %s)\n",
        failed.name.c_str(), static_cast<long long>(check.mismatches),
        static_cast<long long>(check.elements), first.tensor.c_str(),
        static_cast<long long>(first.expert), static_cast<long long>(first.row),
        static_cast<long long>(first.column), element_text(first.got).c_str(),
        element_text(first.want).c_str());
  }
  if (!failed.outcome.failure.empty()) {
    std::fprintf(stderr, "moesaic verify: %s: %s\n", failed.name.c_str(),
                 failed.outcome.failure.c_str());
  }
  std::fprintf(stderr, "moesaic verify: reproduce: %s\n", report.reproduce(failed.name).c_str());
}

/// Why a device takes no product at all.
std::string why_no_product(const DeviceInfo& device) {
  GroupedGemmProblem probe;
  probe.num_experts = 4;
  probe.max_rows = 64;
  probe.n = 24;
  probe.k = 40;
  return reasons_against(GroupedGemm::candidates(probe, device), probe.strategy);
}

/// The flags that together leave no case, by name.
[[noreturn]] void refuse_empty(const VerifyFlags& flags) {
  std::vector<std::string> names, typed;
  const auto note = [&](const char* flag, const std::string& value) {
    names.emplace_back(flag);
    typed.push_back(value.empty() ? flag : flag + (" " + value));
  };
  if (!flags.case_name.empty()) note("--case", flags.case_name);
  if (flags.pass) note("--pass", std::string(name(*flags.pass)));
  if (flags.format) note("--dtype", std::string(dtype_word(*flags.format)));
  if (names.size() < 2) {
    refuse("--case", "the name of a case or the beginning of names (group:histogram:...)",
           flags.case_name);
  }
  if (flags.quick) typed.emplace_back("--quick");
  refuse(join(names, ", "), "a selection that some case meets", join(typed, " "));
}

}  // namespace

std::string VerifyReport::reproduce(const std::string& case_name) const {
  return "moesaic verify --case " + shell_quote(case_name) + " --seed " + std::to_string(seed) +
         " --backend " + (device.starts_with("cuda") ? "cuda" : "cpu");
}

Verifier::Verifier(const Options& options, const DeviceInfo& device)
    : flags_(options.verify),
      seed_(options.input.seed),
      device_(device),
      site_(device.device),
      progress_("verify", static_cast<double>(std::size(kGroups))) {
  report_.device = to_string(device.device) + " (" + device.name + ")";
  report_.seed = seed_;
}

bool Verifier::wants(Pass pass, Format format) const {
  static constexpr RunPass kSame[] = {RunPass::forward, RunPass::dgrad, RunPass::wgrad};
  return (!flags_.pass || *flags_.pass == kSame[static_cast<std::size_t>(pass)]) &&
         (!flags_.format || *flags_.format == format);
}

bool Verifier::wants_mlp(Format format) const {
  return (!flags_.pass || *flags_.pass == RunPass::mlp) &&
         (!flags_.format || *flags_.format == format);
}

void Verifier::group(const std::string& name, const std::string& what) {
  progress_.update(static_cast<double>(report_.groups.size()), name);
  report_.groups.push_back({name, what});
}

bool Verifier::selected(const std::string& name) const {
  const std::string full = report_.groups.back().name + ":" + name;
  return full.starts_with(flags_.case_name) || flags_.case_name.starts_with(full);
}

void Verifier::run(const std::string& name, const std::function<CaseOutcome()>& work) {
  GroupReport& group = report_.groups.back();
  const std::string full = group.name + ":" + name;
  if (!full.starts_with(flags_.case_name)) return;
  progress_.update(static_cast<double>(report_.groups.size()) - 0.5, full);
  CaseOutcome outcome;
  try {
    outcome = work();
  } catch (const std::exception& error) {
    outcome.failure = std::string("threw: ") + error.what();
  }
  ++group.cases;
  group.elements += outcome.check.elements;
  group.mismatches += outcome.check.mismatches;
  group.worst = std::max(group.worst, outcome.check.worst);
  if (outcome.ok()) return;
  ++group.failed_cases;
  report_.failures.push_back({full, std::move(outcome)});
}

void Verifier::skip(const std::string& reason) {
  auto& skipped = report_.skipped;
  if (std::find(skipped.begin(), skipped.end(), reason) == skipped.end()) {
    skipped.push_back(reason);
  }
}

std::vector<Verifier::Choice> Verifier::choices(const GroupedGemmProblem& problem,
                                                const PlanOptions* options) {
  std::vector<Choice> result;
  for (const Strategy strategy : {Strategy::grouped, Strategy::padded_bmm, Strategy::host_loop}) {
    GroupedGemmProblem asked = problem;
    asked.strategy = strategy;
    const std::vector<Candidate> candidates =
        GroupedGemm::candidates(asked, device_, options != nullptr ? *options : PlanOptions());
    for (const Candidate& candidate : candidates) {
      if (candidate.support) result.push_back({strategy, candidate.implementation});
    }
    const std::string why = reasons_against(candidates, strategy);
    if (!why.empty() && options == nullptr) {
      skip(std::string(name(problem.pass)) + " " + std::string(dtype_word(problem.format)) + " " +
           std::string(name(strategy)) + ": " + why);
    }
  }
  return result;
}

VerifyReport Verifier::finish() {
  progress_.clear();
  std::erase_if(report_.groups, [](const GroupReport& group) { return group.cases == 0; });
  if (report_.groups.empty()) {
    refuse_empty(flags_);
  }
  return std::move(report_);
}

ExitCode cmd_verify(const Options& options) {
  const DeviceChoice choice = choose_device(options.verify.backend, why_no_product);
  print_choice(choice, "verify");
  Verifier verifier(options, choice.device);
  for (const Group group : kGroups) group(verifier);
  const VerifyReport report = verifier.finish();
  for (const std::string& skipped : report.skipped) {
    std::fprintf(stderr, "moesaic verify: skipped %s\n", skipped.c_str());
  }
  std::fputs((options.output.json ? verify_json(report) : verify_text(report)).c_str(), stdout);
  const std::size_t shown = std::min(report.failures.size(), kShownFailures);
  for (std::size_t i = 0; i < shown; ++i) print_failure(report.failures[i], report);
  if (shown < report.failures.size()) {
    std::fprintf(stderr, "moesaic verify: and %zu more failed cases (--json lists all)\n",
                 report.failures.size() - shown);
  }
  if (!report.ok()) return ExitCode::check_failed;
  return options.output.strict && !report.skipped.empty() ? ExitCode::skipped : ExitCode::fine;
}

}  // namespace moesaic::cli
