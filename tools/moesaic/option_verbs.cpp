// SPDX-License-Identifier: Apache-2.0
// The flags of each verb.
#include "option_verbs.hpp"

#include <CLI/CLI.hpp>

#include "arguments.hpp"
#include "moesaic/error.hpp"
#include "option_flags.hpp"

namespace moesaic::cli {

void declare_plan(CLI::App& app, Options& options) {
  PlanFlags& plan = options.plan;
  declare_input(app, options.input);
  declare_layer(app, options.input, false);
  add(app, "--tiles", "N,N,...", "Tile heights of the tail ledger (8,16,32,64,128)",
      [&plan](const std::string& text) { plan.planner.tiles = parse_tiles(text); });
  add(app, "--shape", "NAME|d=D,h=H",
      "Layer widths; needed for cost, roofline and the suggested tile, which are absent without",
      [&plan](const std::string& text) { plan.shape = planner::parse_shape(text); });
  add(app, "--proj", "PROJ", "up_gate (N = 2h, the default), down, or square (N = K = d)",
      [&plan](const std::string& text) { plan.projection = planner::parse_projection(text); });
  add(app, "--capacity", "RULE", "Capacity of a padded batch: 1.25 (default) or 1.25:eight_row:S",
      [&plan](const std::string& text) { plan.planner.capacity = read_capacity(text); });
  add(app, "--device", "NAME", "Device preset of cost and roofline (h200)",
      [&plan](const std::string& text) { plan.planner.device = read_device("--device", text); });
  add(app, "--by", "KEY",
      "Rows of the table: record (default), or the worst of each layer, step "
      "or rank",
      [&plan](const std::string& text) { plan.by = parse_by(text); });
  add(app, "--top", "N", "Rows of the table, worst first (20); 0: all",
      [&plan](const std::string& text) { plan.top = parse_integer("--top", text, 0, kMaxCount); });
  app.add_flag("--explain", plan.explain, "Print the definition of every number")
      ->disable_flag_override();
  declare_output(app, options.output, true);
  declare_strict(app, options.output);
  app.footer(
      std::string(kSpecs) +
      "Examples:\n"
      "  moesaic plan expert_distribution.json --shape small-2\n"
      "  moesaic plan routed_experts.npy --experts 64 --ep 8 --by layer\n"
      "  moesaic plan zipf:1.2 --rows 4096 --experts 64 --shape d=2048,h=1408 --explain\n\n"
      "JSON: cost holds the four terms of the suggested tile, and is null without --shape; rank "
      "is\n"
      "null for a whole layer.");
}

void declare_mlp(CLI::App& app, RunFlags& run, const std::string& recompute_help) {
  add(app, "--order", "ORDER", "up_gate (default), gate_up or interleaved columns, for --pass mlp",
      [&run](const std::string& text) {
        run.order = parse_order(text);
        run.order_given = true;
      });
  app.add_flag("--recompute", run.recompute, recompute_help)->disable_flag_override();
}

void declare_work(CLI::App& app, RunFlags& run) {
  add(app, "--shape", "NAME|d=D,h=H",
      "Layer widths (needed): small-2 ... ultra-2, or d=2048,h=1408",
      [&run](const std::string& text) {
        run.shape = planner::parse_shape(text);
        run.shape_text = text;
      });
  add(app, "--pass", "PASS", "forward (default), dgrad, wgrad, or mlp (forward and backward)",
      [&run](const std::string& text) { run.pass = parse_pass(text); });
  add(app, "--proj", "PROJ", "up_gate (N = 2h, the default), down, or square (N = K = d)",
      [&run](const std::string& text) {
        run.projection = planner::parse_projection(text);
        run.projection_given = true;
      });
  declare_mlp(app, run, "--pass mlp: backward computes U again");
  declare_execution(app, run);
}

void declare_run(CLI::App& app, Options& options) {
  options.run.strategies = parse_strategy("all");
  declare_input(app, options.input);
  declare_layer(app, options.input, true);
  declare_work(app, options.run);
  declare_output(app, options.output, true);
  declare_strict(app, options.output);
  app.footer(
      std::string(kSpecs) +
      "Examples:\n"
      "  moesaic run counts:5,0,7,11 --shape d=64,h=96\n"
      "  moesaic run routing.json --layer 12 --rows 8192 --shape d=2048,h=1408 --pass mlp\n"
      "  moesaic run zipf:1.2 --rows 4096 --experts 64 --shape small-2 --strategy grouped --json");
}

void declare_verify(CLI::App& app, Options& options) {
  VerifyFlags& verify = options.verify;
  app.add_flag("--quick", verify.quick, "A part of the cases, in a few seconds")
      ->disable_flag_override();
  add(app, "--case", "NAME", "Only this case, or the cases whose names begin so",
      [&verify](const std::string& text) { verify.case_name = text; });
  add(app, "--seed", "N", "Seed of the random operands (1)",
      [&options](const std::string& text) { options.input.seed = parse_seed("--seed", text); });
  add(app, "--backend", "NAME", "auto (default), cpu or cuda",
      [&verify](const std::string& text) { verify.backend = parse_backend(text); });
  add(app, "--dtype", "DTYPE", "Only bf16 or fp32",
      [&verify](const std::string& text) { verify.format = parse_dtype(text); });
  add(app, "--pass", "PASS", "Only forward, dgrad, wgrad or mlp",
      [&verify](const std::string& text) { verify.pass = parse_pass(text); });
  declare_output(app, options.output, false);
  declare_strict(app, options.output);
  app.footer(
      "Examples:\n"
      "  moesaic verify --quick\n"
      "  moesaic verify --case exact:mixed --dtype bf16");
}

void declare_bench_lists(CLI::App& app, BenchFlags& bench) {
  app.add_option_function<std::vector<std::string>>(
         "--shape",
         [&bench](const std::vector<std::string>& words) {
           for (const std::string& word : words) bench.shapes.push_back(planner::parse_shape(word));
         },
         "Layer widths (needed): small-2 ... ultra-2, or d=2048,h=1408; may be repeated")
      ->type_name("NAME|d=D,h=H")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add(app, "--pass", "PASS,...",
      "forward (default), dgrad, wgrad, and mlp (forward and backward, without --proj)",
      [&bench](const std::string& text) {
        bench.passes = parse_list<RunPass>("--pass", text, parse_pass);
      });
  add(app, "--proj", "PROJ,...", "up_gate (default), down and square",
      [&bench](const std::string& text) {
        bench.projections =
            parse_list<planner::Projection>("--proj", text, planner::parse_projection);
      });
  add(app, "--rows", "N,N,...", "Rows of a SPEC; a file's histogram is rescaled to so many",
      [&bench](const std::string& text) { bench.rows = parse_row_counts(text); });
}

void declare_bench(CLI::App& app, Options& options) {
  static constexpr std::int64_t kMaxSamples = 1000;
  static constexpr double kLeastSustained = 0.05, kMostSustained = 3600;
  options.run.strategies = parse_strategy("all");
  BenchFlags& bench = options.bench;
  declare_source(app, options.input);
  declare_layer(app, options.input, true);
  declare_bench_lists(app, bench);
  declare_mlp(app, options.run, "--pass mlp: also with a backward that computes U again");
  add(app, "--x-rows", "K",
      "--pass mlp: x holds tokens of K rows each, read where they lie and, beside it, copied",
      [&options](const std::string& text) {
        options.run.rows_per_token = parse_integer("--x-rows", text, 1, 1024);
        options.run.x_rows = XRows::indexed;
      });
  declare_execution(app, options.run);
  add(app, "--implementation", "NAME,...",
      "Time these too, as info names them, beside what the plan chooses; all: every grouped one",
      [&options](const std::string& text) {
        const auto read = [&text](std::string_view word) {
          if (word.empty()) refuse("--implementation", "names between commas", text);
          return std::string(word);
        };
        options.run.implementations = parse_list<std::string>("--implementation", text, read);
      });
  add(app, "--sustained", "TIME",
      "Work without a gap, each case alone: so long, such as 8s, before the times are taken",
      [&bench](const std::string& text) {
        const double seconds = parse_seconds("--sustained", text);
        if (seconds < kLeastSustained || seconds > kMostSustained) {
          refuse("--sustained", "from 0.05s to 1h, such as 8s", text);
        }
        bench.sustained_seconds = seconds;
      });
  add(app, "--samples", "N", "Timed runs of every strategy, 5 to 1000 (20)",
      [&bench](const std::string& text) {
        bench.samples = parse_integer("--samples", text, 5, kMaxSamples);
      });
  add(app, "--json", "FILE", "Append one JSON line per case; -: to standard output, without table",
      [&bench](const std::string& text) { bench.json_path = text; });
  add(app, "--compare", "FILE", "Compare with the latest rows of the same cases in this file",
      [&bench](const std::string& text) { bench.compare_path = text; });
  add(app, "--threshold", "F", "--compare: exit 1 when a case is slower by more (0.03)",
      [&bench](const std::string& text) { bench.threshold = parse_threshold(text); });
  app.add_flag("--profile", bench.profile,
               "Time nothing: execute every case once in a range for scripts/profile_rows.py")
      ->disable_flag_override();
  declare_strict(app, options.output);
  app.footer(
      std::string(kSpecs) +
      "Examples:\n"
      "  moesaic bench uniform --experts 16 --rows 4096,65536 --shape d=4096,h=4096 --proj square\n"
      "  moesaic bench routing.json --layer 12 --shape small-2 --pass forward,dgrad,wgrad \\\n"
      "    --json now.jsonl --compare base.jsonl --threshold 0.05\n"
      "  moesaic bench routing.json --layer 12 --shape small-2 --strategy grouped \\\n"
      "    --implementation cuda/sm90/bf16_rows_2x128x256_k --sustained 8s");
}

void declare_info(CLI::App& app, Options& options) {
  declare_output(app, options.output, false);
  app.footer("Example:\n  moesaic info --json");
}

}  // namespace moesaic::cli
