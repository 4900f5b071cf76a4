// SPDX-License-Identifier: Apache-2.0
// moesaic run: which records, then every strategy on each, checked and timed.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "arguments.hpp"
#include "commands.hpp"
#include "interrupt.hpp"
#include "json_output.hpp"
#include "machine.hpp"
#include "progress.hpp"
#include "run.hpp"
#include "selection.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// Grows as the time of a record does, roughly: the unit of progress.
double work_of(const routing::Record& record, const RunFlags& flags) {
  return static_cast<double>(record.rows() + 1) * static_cast<double>(flags.strategies.size());
}

RunResults run_records(const Options& options, const std::vector<routing::Record>& records,
                       const DeviceInfo& device) {
  const RunFlags& flags = options.run;
  double total = 0, done = 0;
  for (const routing::Record& record : records) total += work_of(record, flags);
  Progress progress("run", total);
  RunResults results;
  std::optional<Interrupt> interrupt;  // before the first record is done there is nothing to print
  for (const routing::Record& record : records) {
    if (Interrupt::came()) break;
    const double each = work_of(record, flags) / static_cast<double>(flags.strategies.size());
    const CaseProgress told = [&](Strategy strategy, double share) {
      const auto before = std::find(flags.strategies.begin(), flags.strategies.end(), strategy) -
                          flags.strategies.begin();
      progress.update(done + each * (static_cast<double>(before) + share),
                      place_of(record) + " " + std::string(name(strategy)));
    };
    if (flags.pass == RunPass::mlp) {
      run_mlp(record, flags, device, options.input.seed, told, results);
    } else {
      run_gemm(record, flags, device, options.input.seed, told, results);
    }
    done += work_of(record, flags);
    if (!interrupt) interrupt.emplace();
  }
  return results;
}

/// The first wrong element of each failed case, with the command that repeats it.
bool report_mismatches(const Options& options, const std::vector<RunCase>& cases) {
  bool all_good = true;
  for (const RunCase& one : cases) {
    if (one.check.mismatches == 0) continue;
    all_good = false;
    if (one.check.first) {
      const Mismatch& first = *one.check.first;
      std::fprintf(stderr,
                   "moesaic run: %s: %lld of %lld elements wrong; first %s (expert %lld, row %lld, "
                   "column %lld, got %s, want %s)\n",
                   std::string(name(one.strategy)).c_str(),
                   static_cast<long long>(one.check.mismatches),
                   static_cast<long long>(one.check.elements), first.tensor.c_str(),
                   static_cast<long long>(first.expert), static_cast<long long>(first.row),
                   static_cast<long long>(first.column), element_text(first.got).c_str(),
                   element_text(first.want).c_str());
    }
    std::fprintf(stderr, "moesaic run: reproduce: %s\n", reproduce_line(options, one).c_str());
  }
  return all_good;
}

}  // namespace

ExitCode cmd_run(const Options& options) {
  const ChosenRecords chosen = choose_records(options.input, options.run.shape.training);
  // No CUDA device is found out before memory is filled.
  const DeviceChoice choice = choose_device(options.run.backend, [&](const DeviceInfo& device) {
    return why_not_on(device, options.run, chosen.records.front());
  });
  print_report(chosen.report, "run", true);
  print_choice(choice, "run");
  const RunResults results = run_records(options, chosen.records, choice.device);
  for (const SkippedCase& skipped : results.skipped) {
    std::fprintf(stderr, "moesaic run: skipped %s: %s\n", skipped.where.c_str(),
                 skipped.reason.c_str());
  }
  if (results.cases.empty()) {
    throw Error(ErrorCode::unsupported, "no strategy can run here; the reasons stand above");
  }
  const std::string text = options.output.json  ? run_json(results.cases)
                           : options.output.csv ? run_csv(results.cases)
                                                : run_text(options.run, results.cases);
  std::fputs(text.c_str(), stdout);
  const std::string warning = unsteady_warning(results.cases);
  if (!warning.empty()) std::fprintf(stderr, "moesaic run: warning: %s\n", warning.c_str());
  const bool good = report_mismatches(options, results.cases);
  if (Interrupt::came()) end_interrupted();
  if (!good) return ExitCode::check_failed;
  const bool doubtful = !results.skipped.empty() || !warning.empty();
  return options.output.strict && doubtful ? ExitCode::skipped : ExitCode::fine;
}

}  // namespace moesaic::cli
