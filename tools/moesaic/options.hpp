// SPDX-License-Identifier: Apache-2.0
// What was asked for, as plain values. How it is written on the command line is option_verbs.cpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ep_routing.hpp"
#include "experiment/case_filter.hpp"
#include "experiment/design.hpp"
#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "moesaic/planner.hpp"
#include "moesaic/routing.hpp"

namespace moesaic::cli {

enum class Verb : std::uint8_t {
  help,
  version,
  info,
  plan,
  run,
  verify,
  bench,
  bench_ep,
  experiment,
  report
};
enum class RunPass : std::uint8_t { forward, dgrad, wgrad, mlp };
enum class BackendChoice : std::uint8_t { automatic, cpu, cuda };
/// Rows of `plan`'s table: every record, or the worst of each layer, step or rank.
enum class ViewBy : std::uint8_t { record, layer, step, rank };

/// Which histograms.
struct InputOptions {
  std::vector<std::string> inputs;  ///< Files, patterns, "-" or SPECs, as typed.
  std::optional<std::int64_t> experts, layer, step, rank, ep, rows;
  std::optional<routing::Form> form;
  bool all_layers = false;  ///< --layer all.
  std::uint64_t seed = 1;
};

struct OutputOptions {
  bool json = false, csv = false, strict = false;
};

struct PlanFlags {
  planner::PlanOptions planner;
  std::optional<planner::LayerShape> shape;
  planner::Projection projection = planner::Projection::up_gate;
  std::int64_t top = 20;  ///< Rows of the table; 0 = all.
  ViewBy by = ViewBy::record;
  bool explain = false;
};

struct RunFlags {
  std::string shape_text;
  planner::LayerShape shape;
  planner::Projection projection = planner::Projection::up_gate;
  RunPass pass = RunPass::forward;
  UpGateOrder order = UpGateOrder::up_gate;
  bool recompute = false;
  XRows x_rows = XRows::in_order;
  std::int64_t rows_per_token = 0;  ///< Unless x_rows is in_order: of each row of x.
  bool projection_given = false, order_given = false;  ///< On the command line, not by default.
  Format format = Format::bf16;
  BackendChoice backend = BackendChoice::automatic;
  std::vector<Strategy> strategies;  ///< In the order to run.
  bool all_strategies = true;
  std::vector<std::string> implementations;  ///< bench: each of these too, by name.
  Capacity capacity{};
};

struct VerifyFlags {
  bool quick = false;
  std::string case_name;  ///< A case, or a group of cases by the start of their names.
  BackendChoice backend = BackendChoice::automatic;
  std::optional<RunPass> pass;
  std::optional<Format> format;
};

/// What `bench` goes through beside the records: everything else of a case is RunFlags'.
struct BenchFlags {
  std::vector<planner::LayerShape> shapes;
  std::vector<RunPass> passes = {RunPass::forward};
  std::vector<planner::Projection> projections = {planner::Projection::up_gate};
  std::vector<std::int64_t> rows;           ///< Empty: as the input has them.
  std::optional<std::int64_t> samples;      ///< Absent: 20.
  std::optional<double> sustained_seconds;  ///< Of conditioning; absent: short bursts.
  std::string json_path;            ///< Rows are appended there; "-": to stdout; empty: none.
  std::string compare_path;         ///< Rows of an earlier run; empty: none.
  std::optional<double> threshold;  ///< A case slower by more is a failure; absent: 0.03.
  bool profile = false;             ///< Ranges for a profiler instead of times.
};

/// What `bench ep` goes through.
struct EpBenchFlags {
  std::int64_t tokens = 8192, topk = 8, experts = 64, d = 4096;
  Format format = Format::bf16;
  std::int64_t capacity_factor_millionths = 1'250'000;
  std::vector<EpRouting> routings = {{}, {"zipf:1", 1}};
  std::vector<int> nblocks = {0};
  std::int64_t samples = 20;
  std::uint64_t seed = 1;
  int simulated = 0;      ///< Ranks of a simulated group; 0: those of the environment.
  std::string json_path;  ///< As of bench.
};

/// What `experiment` is asked for. Inputs, --shape and --proj are skew's; the seed is
/// InputOptions'.
struct ExperimentFlags {
  std::string name;  ///< "fig38"
  experiment::DesignOptions design;
  bool protocol_given = false, dry_run = false;
  std::optional<double> budget_seconds;
  std::string output_path;                     ///< Rows are appended there; "-": to stdout.
  std::vector<std::string> summarize_paths;    ///< Only tells what their rows say; empty: runs.
  std::vector<std::string> presets;            ///< Devices of fig2's curves.
  std::optional<std::int64_t> process;         ///< Only the cases of this process, in this process.
  std::vector<experiment::FactorChoice> only;  ///< Only the cases that have these values.
};

struct ReportFlags {
  std::vector<std::string> routing;  ///< Inputs that are histograms, whatever they look like.
  std::string output;                ///< "-": to stdout.
  std::string title = "moesaic report";
  std::string plotly;  ///< plotly.min.js; empty: the installed one.
};

/// One parsed command line. Only the members of the verb are meaningful.
struct Options {
  Verb verb = Verb::help;
  std::string help_text;  ///< What `help` prints.
  InputOptions input;
  OutputOptions output;
  PlanFlags plan;
  RunFlags run;
  VerifyFlags verify;
  BenchFlags bench;
  EpBenchFlags ep_bench;
  ExperimentFlags experiment;
  ReportFlags report;
  std::vector<std::string> words;  ///< The verb's, as they came.
  std::string command;             ///< As it was typed, quoted for a shell.
};

/// Reads the words after the program's name.
/// @throws Error{invalid_argument} with one line that names the verb, the flag, what was expected
/// and what came.
Options parse_command_line(std::span<const std::string> words);

/// True for a verb that reads flags of its own.
bool is_verb(std::string_view word);

}  // namespace moesaic::cli
