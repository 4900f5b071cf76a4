// SPDX-License-Identifier: Apache-2.0
// moesaic experiment: a measured claim, run here by its own protocol. Which cases a claim has is
// experiment/design*.cpp's.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "commands.hpp"
#include "experiment/course.hpp"
#include "experiment/fig2.hpp"
#include "experiment/plan.hpp"
#include "experiment/summarize.hpp"
#include "experiment/summary.hpp"
#include "interrupt.hpp"
#include "machine.hpp"
#include "moesaic/build_info.hpp"
#include "row_sink.hpp"
#include "run.hpp"
#include "selection.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

using namespace experiment;

std::string output_path(const ExperimentFlags& flags) {
  return flags.output_path.empty() ? flags.name + ".jsonl" : flags.output_path;
}

CaseFilter filter_of(const ExperimentFlags& flags) {
  return {flags.process.value_or(-1), flags.only};
}

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    std::fprintf(stderr, "moesaic experiment: warning: %s\n", warning.c_str());
  }
}

ExitCode run_fig2(const Options& options) {
  const ExperimentFlags& flags = options.experiment;
  const std::vector<std::string> presets =
      flags.presets.empty() ? std::vector<std::string>{"b300", "h200"} : flags.presets;
  const std::vector<Fig2Row> rows = fig2_rows(presets);
  const std::string path = output_path(flags);
  if (flags.dry_run) {
    if (options.output.json) refuse("--json", "with an experiment that has cases", "fig2");
    std::printf(
        "fig2: roofline curves of a dense and a routed layer of equal FLOPs\n\n"
        "protocol   full: arithmetic, no device, a moment\n"
        "rows       %zu to %s: dense and grouped on %s\n",
        rows.size(), path.c_str(), join(presets, ", ").c_str());
    return ExitCode::fine;
  }
  const ResultFile there("--output", path == "-" ? "" : path);
  RowSink sink(path, "--output");
  warn(there.warnings());
  for (const Fig2Row& row : rows) {
    if (!there.has(row.place)) sink.write(row.json);
  }
  if (!sink.takes_stdout()) std::fputs(fig2_text(presets).c_str(), stdout);
  return ExitCode::fine;
}

Design design_of(const Options& options) {
  DesignOptions wanted = options.experiment.design;
  wanted.seed = options.input.seed;
  if (options.experiment.name != "skew") return make_design(options.experiment.name, wanted);
  InputOptions input = options.input;
  const bool selects = input.layer || input.step || input.rank;
  if (!selects) input.all_layers = true;
  const ChosenRecords chosen = choose_records(input, options.run.shape.training);
  print_report(chosen.report, "experiment", true);
  return make_skew(chosen.records, options.run.shape, options.run.projection, wanted);
}

/// Why a device cannot run the grouped product of the first case.
DeviceChoice device_for(const Design& design, BackendChoice backend) {
  const Case& first = design.cases.front();
  RunFlags flags;
  flags.shape = first.shape;
  flags.projection = first.projection;
  flags.strategies = {Strategy::grouped};
  return choose_device(
      backend, [&](const DeviceInfo& device) { return why_not_on(device, flags, first.record); });
}

/// The pace of --device, of the device that is here, or of the H200 where there is none.
Pace planned_pace(const Options& options, const Design& design) {
  if (!options.experiment.presets.empty()) return preset_pace(options.experiment.presets.front());
  if (options.run.backend == BackendChoice::cpu) return device_pace(query_device(Device{}));
  const DeviceChoice choice = device_for(design, BackendChoice::automatic);
  if (choice.device.device.kind == DeviceKind::cuda) return device_pace(choice.device);
  return preset_pace("h200");
}

ExitCode print_plan(const Options& options, const Design& design) {
  const std::string path = output_path(options.experiment);
  const CaseFilter filter = filter_of(options.experiment);
  filter.require_known(design);
  const Pace pace = planned_pace(options, design);
  if (options.output.json) {
    std::fputs(plan_json(design, filter, pace).c_str(), stdout);
    return ExitCode::fine;
  }
  const ResultFile there("--output", path == "-" ? "" : path);
  const std::vector<Task> tasks = tasks_of(design, there, pace, filter);
  warn(there.warnings());
  std::fputs(plan_text(design, tasks, filter, pace, path).c_str(), stdout);
  return ExitCode::fine;
}

/// What a run came to, in one process or several.
struct Outcome {
  bool wrong = false, doubtful = false;
  int signal = 0;                  ///< That ended it; 0: none.
  std::optional<ExitCode> failed;  ///< A process that could not go on and has said why.
};

/// What a course came to; `whose` rows they are.
void tell(const CourseResult& result, const std::string& whose) {
  if (result.rows > 0) {
    std::fprintf(stderr, "moesaic experiment: %s rows%s in %s, %s a row: %s; expected: %s\n",
                 grouped_digits(result.rows).c_str(), whose.c_str(),
                 duration(result.spent.total()).c_str(),
                 duration(result.spent.total() / static_cast<double>(result.rows)).c_str(),
                 result.spent.words().c_str(), result.expected.words().c_str());
  }
  for (const RunCase& one : result.trouble.wrong) {
    std::fprintf(stderr, "moesaic experiment: %s\n", wrong_words(one).c_str());
  }
  std::map<std::pair<std::string, std::string>, int> skipped;  // arm and reason, cases
  for (const SkippedCase& one : result.trouble.skipped) ++skipped[{one.where, one.reason}];
  for (const auto& [what, cases] : skipped) {
    std::fprintf(stderr, "moesaic experiment: skipped arm %s in %d cases: %s\n", what.first.c_str(),
                 cases, what.second.c_str());
  }
  if (result.left.empty()) return;
  std::fprintf(stderr, "moesaic experiment: %s before %s; %s rows%s are left, %s\n",
               result.out_of_time ? "stopped by --budget" : "interrupted",
               result.left.front().one->key.c_str(), grouped_digits(row_count(result.left)).c_str(),
               whose.c_str(), about(result.left_seconds).c_str());
}

Outcome run_here(const Options& options, const Design& design, const std::vector<Task>& tasks,
                 const DeviceInfo& device, Account& account) {
  const ExperimentFlags& flags = options.experiment;
  RowSink sink(output_path(flags), "--output");
  std::string whose;
  if (flags.process) {
    whose = " of process " + std::to_string(*flags.process + 1) + " of " +
            std::to_string(design.processes);
  }
  const BenchSetting setting{options.command, device, device_circumstances(device.device)};
  const CourseResult result = run_course(
      design, tasks, setting, {design.name + whose, flags.budget_seconds}, account, sink);
  tell(result, whose);
  return {.wrong = !result.trouble.wrong.empty(),
          .doubtful = result.throttled + result.unsteady > 0 || !result.left.empty() ||
                      !result.trouble.skipped.empty(),
          .signal = Interrupt::came() ? SIGINT : 0,
          .failed = {}};
}

/// Every process that has cases left, each started afresh, one after another.
Outcome run_processes(const Options& options, const Design& design, const std::vector<Task>& tasks,
                      const Account& account) {
  Outcome outcome;
  for (std::int64_t process = 0; process < design.processes; ++process) {
    const auto mine = [&](const Task& task) { return task.one->process == process; };
    if (std::none_of(tasks.begin(), tasks.end(), mine)) continue;
    std::optional<double> budget = options.experiment.budget_seconds;
    if (budget) {
      // Another process would say again that there is no time left.
      static constexpr double kLeastSeconds = 0.5, kNoSeconds = 1e-3;
      *budget -= account.seconds();
      if (*budget < kLeastSeconds && process > 0) return outcome;
      *budget = std::max(*budget, kNoSeconds);
    }
    const ChildEnd end = run_fresh_process(words_for_process(options.words, process, budget));
    outcome.signal = end.signal;
    if (end.signal != 0) return outcome;
    const auto code = static_cast<ExitCode>(end.exit_code);
    outcome.wrong |= code == ExitCode::check_failed;
    outcome.doubtful |= code == ExitCode::skipped;
    if (code != ExitCode::fine && code != ExitCode::check_failed && code != ExitCode::skipped) {
      outcome.failed = code;
      return outcome;
    }
  }
  return outcome;
}

/// Rows that there are, and those of them that were throttled or unsteady.
struct Told {
  std::int64_t rows = 0, doubtful = 0;
};

/// What the rows say, and what is missing.
Told tell_rows(const Options& options, const Design& design, const std::string& device) {
  const std::string path = output_path(options.experiment);
  const CaseFilter filter = filter_of(options.experiment);
  const ResultFile now("--output", path);
  Told told;
  for (const RowSet& set : row_sets(now, design.name)) {
    if (set.device != device || set.protocol != name(design.protocol)) continue;
    std::fputs(summary_text(set).c_str(), stdout);
    told.rows += std::ssize(set.rows);
    told.doubtful += std::count_if(set.rows.begin(), set.rows.end(), [](const StoredRow& row) {
      return row.throttled || row.unsteady;
    });
  }
  const bool torch_missing =
      std::any_of(design.cases.begin(), design.cases.end(), [&](const Case& one) {
        return filter.takes(one) &&
               std::find(one.arms.begin(), one.arms.end(), Arm::torch) != one.arms.end() &&
               !now.has(place_of(design, one, Arm::torch));
      });
  if (torch_missing) {
    std::fprintf(stderr, "moesaic experiment: %s\n", torch_hint(options.command, path).c_str());
  }
  const std::int64_t left = row_count(tasks_of(design, now, Pace{}, filter));
  if (left > 0) {
    std::fprintf(stderr,
                 "moesaic experiment: %s of %s rows are not there; the same command goes on\n",
                 grouped_digits(left).c_str(), grouped_digits(row_count(design, filter)).c_str());
  }
  return told;
}

/// The name that rows have for a device.
std::string row_device(const DeviceInfo& device) {
  return device.device.kind == DeviceKind::cpu ? cpu_info().model : device.name;
}

ExitCode run_design(const Options& options, const Design& design, Account& account) {
  const ExperimentFlags& flags = options.experiment;
  const CaseFilter filter = filter_of(flags);
  filter.require_known(design);
  const DeviceChoice choice = device_for(design, options.run.backend);
  const std::string path = output_path(flags), device = row_device(choice.device);
  const bool to_file = path != "-";
  ResultFile there("--output", to_file ? path : "");
  there.require_same(design, device);
  if (!flags.process) {
    warn(there.warnings());
    print_choice(choice, "experiment");
  }
  const std::vector<Task> tasks = tasks_of(design, there, device_pace(choice.device), filter);
  if (!flags.process) {
    const std::int64_t all = row_count(design, filter), left = row_count(tasks);
    std::fprintf(stderr, "moesaic experiment: %s rows to %s, %s; %s of %s are there\n",
                 grouped_digits(left).c_str(), path.c_str(),
                 left > 0 ? about(expected_seconds(tasks).total()).c_str() : "nothing to run",
                 grouped_digits(all - left).c_str(), grouped_digits(all).c_str());
  }
  Outcome outcome;
  if (!tasks.empty()) {
    outcome = design.processes > 1 && !flags.process
                  ? run_processes(options, design, tasks, account)
                  : run_here(options, design, tasks, choice.device, account);
  }
  if (outcome.failed) return *outcome.failed;
  if (to_file && !flags.process) {
    const Told told = tell_rows(options, design, device);
    outcome.doubtful |= told.doubtful > 0;
    if (told.rows == 0 && !outcome.wrong && outcome.signal == 0 && !flags.budget_seconds) {
      throw Error(ErrorCode::unsupported, "nothing was timed; the reasons stand above");
    }
  }
  if (outcome.signal == SIGINT) end_interrupted();
  if (outcome.signal != 0) {
    std::fprintf(stderr,
                 "moesaic experiment: a process was ended by signal %d; its rows are kept\n",
                 outcome.signal);
    return ExitCode::bad_input;
  }
  if (outcome.wrong) return ExitCode::check_failed;
  return options.output.strict && outcome.doubtful ? ExitCode::skipped : ExitCode::fine;
}

}  // namespace

ExitCode cmd_experiment(const Options& options) {
  if (options.experiment.name == "fig2") return run_fig2(options);
  if (!options.experiment.summarize_paths.empty()) return summarize(options);
  Account account;
  const Design design = design_of(options);
  return options.experiment.dry_run ? print_plan(options, design)
                                    : run_design(options, design, account);
}

}  // namespace moesaic::cli
