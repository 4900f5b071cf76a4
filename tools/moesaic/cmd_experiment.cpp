// SPDX-License-Identifier: Apache-2.0
// moesaic experiment: a measured claim, run here by its own protocol. Which cases a claim has is
// experiment/design*.cpp's.
#include <cstdio>
#include <string>

#include "commands.hpp"
#include "experiment/fig2.hpp"
#include "experiment/plan.hpp"
#include "machine.hpp"
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
  if (options.output.json) {
    std::fputs(plan_json(design).c_str(), stdout);
    return ExitCode::fine;
  }
  const ResultFile there("--output", path == "-" ? "" : path);
  const Pace pace = planned_pace(options, design);
  const std::vector<Task> tasks =
      tasks_of(design, there, pace, options.experiment.process.value_or(-1));
  warn(there.warnings());
  std::fputs(plan_text(design, tasks, pace, path).c_str(), stdout);
  return ExitCode::fine;
}

}  // namespace

ExitCode cmd_experiment(const Options& options) {
  if (options.experiment.name == "fig2") return run_fig2(options);
  const Design design = design_of(options);
  if (!options.experiment.dry_run) {
    throw Error(ErrorCode::unsupported,
                design.name + " is only planned in this version: --dry-run prints the plan");
  }
  return print_plan(options, design);
}

}  // namespace moesaic::cli
