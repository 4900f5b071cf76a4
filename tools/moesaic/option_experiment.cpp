// SPDX-License-Identifier: Apache-2.0
// The flags of `experiment`, and which of them go together.
#include <CLI/CLI.hpp>

#include "arguments.hpp"
#include "option_flags.hpp"
#include "option_verbs.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kMostTrials = 1000;

void declare_design(CLI::App& app, ExperimentFlags& flags) {
  add(app, "--protocol", "NAME", "full (default): as the claim states it; reduced: small and short",
      [&flags](const std::string& text) {
        flags.design.protocol = experiment::parse_protocol(text);
        flags.protocol_given = true;
      });
  add(app, "--arms", "NAME,...", "Of grouped, padded_bmm, host_loop, dense, torch",
      [&flags](const std::string& text) {
        flags.design.arms = parse_list<experiment::Arm>("--arms", text, experiment::parse_arm);
      });
  add(app, "--trials", "N", "Trials of table44 and fig73, fresh processes of fig40",
      [&flags](const std::string& text) {
        flags.design.trials = parse_integer("--trials", text, 1, kMostTrials);
      });
}

void declare_course(CLI::App& app, ExperimentFlags& flags) {
  app.add_flag("--dry-run", flags.dry_run,
               "Print cases, arms, processes and expected time; run nothing, write nothing")
      ->disable_flag_override();
  add(app, "--budget", "TIME", "Stop before a case that would not end in time: 90s, 30m or 1.5h",
      [&flags](const std::string& text) {
        flags.budget_seconds = parse_seconds("--budget", text);
      });
  add(app, "--output", "FILE",
      "Rows are appended there, and those there are not run again (NAME.jsonl); -: to stdout",
      [&flags](const std::string& text) { flags.output_path = text; });
  app.add_option("--summarize", flags.summarize_paths,
                 "Run nothing; print what the rows of these files say together")
      ->type_name("FILE...");
  add(app, "--device", "NAME,...",
      "Presets of fig2's curves (b300,h200); with --dry-run one, for the expected time",
      [&flags](const std::string& text) {
        flags.presets = parse_list<std::string>(
            "--device", text, [](std::string_view word) { return read_device("--device", word); });
      });
  add(app, "--process", "N", "Only the cases of process N, from 0, in this process",
      [&flags](const std::string& text) {
        flags.process = parse_integer("--process", text, 0, kMostTrials);
      });
}

void declare_only(CLI::App& app, ExperimentFlags& flags) {
  app.add_option_function<std::vector<std::string>>(
         "--only",
         [&flags](const std::vector<std::string>& words) {
           for (const std::string& word : words) {
             flags.only.push_back(experiment::parse_choice(word));
           }
         },
         "Only cases with one of these values, such as trial=0,1; may be repeated")
      ->type_name("FACTOR=VALUE,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void require(bool fits, const char* flag, const std::string& expected, const std::string& got) {
  if (!fits) refuse_usage("experiment", expected_got(flag, expected, got));
}

/// Flags, and whether they were given.
using GivenFlags = std::vector<std::pair<const char*, bool>>;

/// What only `skew` reads.
GivenFlags input_flags(const Options& options) {
  const InputOptions& input = options.input;
  const RunFlags& run = options.run;
  return {{"FILE or SPEC", !input.inputs.empty()},      {"--experts", input.experts.has_value()},
          {"--layer", input.layer || input.all_layers}, {"--step", input.step.has_value()},
          {"--rank", input.rank.has_value()},           {"--ep", input.ep.has_value()},
          {"--rows", input.rows.has_value()},           {"--form", input.form.has_value()},
          {"--shape", !run.shape_text.empty()},         {"--proj", run.projection_given}};
}

/// What says how cases are timed, and which.
GivenFlags timing_flags(const Options& options) {
  const ExperimentFlags& flags = options.experiment;
  return {{"--protocol", flags.protocol_given},
          {"--arms", !flags.design.arms.empty()},
          {"--trials", flags.design.trials > 0},
          {"--budget", flags.budget_seconds.has_value()},
          {"--process", flags.process.has_value()},
          {"--only", !flags.only.empty()},
          {"--backend", options.run.backend != BackendChoice::automatic}};
}

void require_none(const GivenFlags& given, const std::string& expected, const std::string& got) {
  for (const auto& [flag, is] : given) require(!is, flag, expected, got);
}

/// --summarize runs nothing: what says how to run has no use beside it.
void check_summarize(const Options& options) {
  GivenFlags given = input_flags(options), timing = timing_flags(options);
  given.insert(given.end(), timing.begin(), timing.end());
  given.insert(given.end(), {{"--seed", options.input.seed != InputOptions{}.seed},
                             {"--output", !options.experiment.output_path.empty()},
                             {"--strict", options.output.strict},
                             {"--dry-run", options.experiment.dry_run}});
  require_none(given, "without --summarize", "both");
}

/// What only `skew` reads, and what it needs.
void check_inputs(const Options& options) {
  const std::string& name = options.experiment.name;
  if (name == "skew") {
    if (!options.experiment.summarize_paths.empty()) return;
    require(!options.input.inputs.empty(), "FILE or SPEC", "at least one histogram for skew",
            "none");
    require(!options.run.shape_text.empty(), "--shape", "a name or d=D,h=H for skew", "none");
    return;
  }
  require_none(input_flags(options), "with skew alone", name);
}

}  // namespace

void declare_experiment(CLI::App& app, Options& options) {
  RunFlags& run = options.run;
  app.add_option("name", options.experiment.name,
                 "fig38, fig71, table44, fig40, fig72, fig73, skew or fig2")
      ->type_name("NAME");
  declare_input(app, options.input);
  declare_layer(app, options.input, true);
  add(app, "--shape", "NAME|d=D,h=H", "skew: layer widths (needed)",
      [&run](const std::string& text) {
        run.shape = planner::parse_shape(text);
        run.shape_text = text;
      });
  add(app, "--proj", "PROJ", "skew: up_gate (default), down or square",
      [&run](const std::string& text) {
        run.projection = planner::parse_projection(text);
        run.projection_given = true;
      });
  add(app, "--backend", "NAME", "auto (default), cpu or cuda",
      [&run](const std::string& text) { run.backend = parse_backend(text); });
  declare_design(app, options.experiment);
  declare_course(app, options.experiment);
  declare_only(app, options.experiment);
  app.add_flag("--json", options.output.json,
               "With --dry-run: one JSON line per case; with --summarize: the figures")
      ->disable_flag_override();
  declare_strict(app, options.output);
  app.footer(std::string(kSpecs) +
             "fig38, fig71   exact rows against a padded batch, over the routed rows\n"
             "table44        one projection split into four or eight experts\n"
             "fig40          how much a concentrated histogram costs at the same rows\n"
             "fig72          two histograms that agree in one figure of concentration\n"
             "fig73          large products for seconds, with clocks and power\n"
             "skew           your histograms: FILE or SPEC, as for run\n"
             "fig2           roofline curves of dense and routed layers; needs no device\n\n"
             "Examples:\n"
             "  moesaic experiment fig40 --dry-run\n"
             "  moesaic experiment fig38 --budget 10m --output fig38.jsonl\n"
             "  moesaic experiment skew routing.json --shape small-2 --protocol reduced");
}

void check_experiment(const Options& options) {
  const ExperimentFlags& flags = options.experiment;
  const std::string known = join(experiment::experiment_names(), ", ");
  require(!flags.name.empty(), "NAME", "one of " + known, "none");
  if (!experiment::is_experiment(flags.name)) {
    const std::string near = nearest_word(flags.name, experiment::experiment_names());
    refuse_usage("experiment", expected_got("NAME", "one of " + known, flags.name) +
                                   (near.empty() ? "" : " (did you mean " + near + "?)"));
  }
  check_inputs(options);
  require(!options.output.json || flags.dry_run || !flags.summarize_paths.empty(), "--json",
          "with --dry-run or --summarize", "none of it");
  if (flags.name == "fig2") {
    GivenFlags given = timing_flags(options);
    given.emplace_back("--summarize", !flags.summarize_paths.empty());
    require_none(given, "with an experiment that runs", "fig2, which is arithmetic");
  } else {
    if (!flags.summarize_paths.empty()) check_summarize(options);
    require(flags.presets.empty() || (flags.dry_run && flags.presets.size() == 1), "--device",
            "with fig2, or one name with --dry-run", join(flags.presets, ","));
  }
}

}  // namespace moesaic::cli
