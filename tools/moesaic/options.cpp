// SPDX-License-Identifier: Apache-2.0
// Declares every flag of every verb. The only file that includes CLI11, which is slow to compile;
// its complaints are reshaped here into one line each.
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>

#include "arguments.hpp"
#include "moesaic/error.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

/// Adds a flag with a value that `read` turns into its meaning; `read` refuses by name.
void add(CLI::App& app, const std::string& flag, const std::string& value, const std::string& help,
         const std::function<void(const std::string&)>& read) {
  app.add_option_function<std::string>(flag, read, help)->type_name(value);
}

void add_integer(CLI::App& app, const std::string& flag, const std::string& help,
                 std::optional<std::int64_t>& target, std::int64_t low,
                 std::int64_t high = kMaxCount) {
  add(app, flag, "N", help, [&target, flag, low, high](const std::string& text) {
    target = parse_integer(flag, text, low, high);
  });
}

/// The library's refusal names the forms of a capacity; the ranges are added here.
Capacity read_capacity(const std::string& text) {
  try {
    return parse_capacity(text);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) +
                                  "; FACTOR from 0.000001 to 1000000 with at most six decimals, S "
                                  "a whole number from 1 to 1000000");
  }
}

/// All but --rows, which is a list for bench.
void declare_source(CLI::App& app, InputOptions& input) {
  app.add_option("inputs", input.inputs,
                 "Routing files, quoted patterns, - for standard input, or SPECs (below)")
      ->type_name("FILE|SPEC");
  add_integer(app, "--experts", "Number of experts, for files of ids and for SPECs", input.experts,
              1, routing::kMaxExperts);
  add_integer(app, "--step", "Only this step", input.step, 0);
  add_integer(app, "--ep", "Ranks that share the experts contiguously; without --rank: every rank",
              input.ep, 1);
  add_integer(app, "--rank", "With --ep: this rank; without: records of this source rank",
              input.rank, 0);
  add(app, "--form", "FORM", "What an ambiguous file holds: counts, offsets, ids or weights",
      [&input](const std::string& text) { input.form = parse_form_word(text); });
  add(app, "--seed", "N", "Seed of SPECs and operands (1)",
      [&input](const std::string& text) { input.seed = parse_seed("--seed", text); });
}

void declare_input(CLI::App& app, InputOptions& input) {
  declare_source(app, input);
  add_integer(app, "--rows", "Rows of a SPEC; a file's histogram is rescaled to so many",
              input.rows, 0);
}

constexpr const char* kSpecs =
    "SPECs: uniform, zipf:S, dirichlet:ALPHA, hotspot:SHARE[,COUNT], one-hot, with --rows,\n"
    "--experts and --seed; counts:17,17,16. The name of an existing file is a file.\n"
    "Shapes by name: small-2, small-3, small-4, medium-2, large-2, ultra-2.\n\n";

void declare_layer(CLI::App& app, InputOptions& input, bool all_allowed) {
  add(app, "--layer", all_allowed ? "N|all" : "N",
      all_allowed ? "Only this layer; all: every layer" : "Only this layer",
      [&input, all_allowed](const std::string& text) {
        if (all_allowed && text == "all") {
          input.all_layers = true;
        } else {
          input.layer = parse_integer("--layer", text, 0, kMaxCount);
        }
      });
}

void declare_output(CLI::App& app, OutputOptions& output, bool csv) {
  app.add_flag("--json", output.json, "Print JSON")->disable_flag_override();
  if (csv) app.add_flag("--csv", output.csv, "Print CSV")->disable_flag_override();
}

void declare_strict(CLI::App& app, OutputOptions& output) {
  app.add_flag("--strict", output.strict, "Exit 4 when something was skipped")
      ->disable_flag_override();
}

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
      [&plan](const std::string& text) {
        try {
          plan.planner.device = planner::device_preset(text).name;
        } catch (const Error& error) {
          throw Error(error.code(), std::string("--") + error.what());
        }
      });
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

/// How a product is computed, whatever it is.
void declare_execution(CLI::App& app, RunFlags& run) {
  add(app, "--dtype", "DTYPE", "bf16 (default) or fp32",
      [&run](const std::string& text) { run.format = parse_dtype(text); });
  add(app, "--backend", "NAME", "auto (default), cpu or cuda",
      [&run](const std::string& text) { run.backend = parse_backend(text); });
  add(app, "--strategy", "NAME", "grouped, padded_bmm, host_loop or all (default)",
      [&run](const std::string& text) {
        run.strategies = parse_strategy(text);
        run.all_strategies = text == "all";
      });
  add(app, "--capacity", "RULE", "Capacity of padded_bmm: 1.25 (default) or 1.25:eight_row:S",
      [&run](const std::string& text) { run.capacity = read_capacity(text); });
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
  add(app, "--order", "ORDER", "up_gate (default), gate_up or interleaved columns, for --pass mlp",
      [&run](const std::string& text) {
        run.order = parse_order(text);
        run.order_given = true;
      });
  app.add_flag("--recompute", run.recompute, "--pass mlp: backward computes U again")
      ->disable_flag_override();
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
  add(app, "--pass", "PASS,...", "forward (default), dgrad and wgrad",
      [&bench](const std::string& text) {
        bench.passes = parse_list<RunPass>("--pass", text, parse_product_pass);
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
  options.run.strategies = parse_strategy("all");
  BenchFlags& bench = options.bench;
  declare_source(app, options.input);
  declare_layer(app, options.input, true);
  declare_bench_lists(app, bench);
  declare_execution(app, options.run);
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
  declare_strict(app, options.output);
  app.footer(
      std::string(kSpecs) +
      "Examples:\n"
      "  moesaic bench uniform --experts 16 --rows 4096,65536 --shape d=4096,h=4096 --proj square\n"
      "  moesaic bench routing.json --layer 12 --shape small-2 --pass forward,dgrad,wgrad \\\n"
      "    --json now.jsonl --compare base.jsonl --threshold 0.05");
}

void declare_info(CLI::App& app, Options& options) {
  declare_output(app, options.output, false);
  app.footer("Example:\n  moesaic info --json");
}

struct VerbRow {
  Verb verb;
  const char* name;
  const char* summary;
  void (*declare)(CLI::App&, Options&);
};
constexpr VerbRow kVerbs[] = {
    {Verb::info, "info", "What this build is, and what can run here and why not", declare_info},
    {Verb::plan, "plan", "What a routing costs: padding, skew, roofline, rank tails; needs no GPU",
     declare_plan},
    {Verb::run, "run", "Execute expert layers on a routing, check them, report throughput",
     declare_run},
    {Verb::verify, "verify", "Check the grouped GEMM contract on hostile cases", declare_verify},
    {Verb::bench, "bench", "Time strategies over shapes and routings, compare with earlier rows",
     declare_bench},
};

std::string overview() {
  std::string text =
      "moesaic: expert layers of Mixture-of-Experts models on exactly the rows that routing "
      "made\n\n"
      "Usage: moesaic VERB [FLAGS]\n\nVerbs:\n";
  for (const VerbRow& row : kVerbs) text += format("  %-8s %s\n", row.name, row.summary);
  return text +
         "  help     This text, or that of a verb: moesaic help plan\n\n"
         "moesaic --version prints the version. Data goes to stdout, all else to stderr.\n"
         "Exit codes: 0 fine, 1 a check failed or a threshold was missed, 2 bad usage or input,\n"
         "3 no suitable device, 4 finished but cases were skipped or throttled (--strict).\n";
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& flag : option->get_lnames()) flags.push_back("--" + flag);
  }
  return flags;
}

/// CLI11 says what is wrong in several ways; each becomes «flag: expected, got».
[[noreturn]] void reshape(const CLI::App& app, const std::string& verb,
                          const CLI::ParseError& error) {
  const std::string what = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::vector<std::string> extras = app.remaining();
    const std::string came = extras.empty() ? what : extras.front();
    const std::string flag = came.substr(0, came.find('='));
    const std::string near = nearest_word(flag, flags_of(app));
    refuse_usage(verb, flag + ": expected a flag of moesaic " + verb +
                           (near.empty() ? "" : " (did you mean " + near + "?)") + ", got \"" +
                           came + "\"");
  }
  std::string flag = what.substr(0, what.find_first_of(": "));
  if (!flag.starts_with("-")) flag.insert(0, "--");
  if (what.find("override") != std::string::npos) {
    refuse_usage(verb, flag + ": expected no value, got one");
  }
  if (what.find("At Most") != std::string::npos) {
    refuse_usage(verb, flag + ": expected once, got it more than once");
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    refuse_usage(verb, flag + ": expected a value, got none");
  }
  refuse_usage(verb, what);
}

Options parse_verb(const VerbRow& row, std::span<const std::string> words) {
  Options options;
  options.verb = row.verb;
  options.command = std::string("moesaic ") + row.name;
  for (const std::string& word : words) options.command += " " + shell_quote(word);
  CLI::App app(row.summary, std::string("moesaic ") + row.name);
  app.get_formatter()->column_width(28);
  row.declare(app, options);
  if (std::find(words.begin(), words.end(), "--help") != words.end() ||
      std::find(words.begin(), words.end(), "-h") != words.end()) {
    options.verb = Verb::help;
    options.help_text = app.help();
    return options;
  }
  // CLI11 takes its words last first.
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    reshape(app, row.name, error);
  }
  if (row.verb == Verb::bench && options.input.inputs.empty()) options.input.inputs = {"uniform"};
  check_together(options);
  return options;
}

const VerbRow* find_verb(std::string_view word) {
  for (const VerbRow& row : kVerbs) {
    if (word == row.name) return &row;
  }
  return nullptr;
}

}  // namespace

bool is_verb(std::string_view word) { return find_verb(word) != nullptr; }

Options parse_command_line(std::span<const std::string> words) {
  static constexpr const char* kExpected = "info, plan, run, verify, bench or help";
  if (words.empty()) {
    throw Error(ErrorCode::invalid_argument,
                std::string("verb: expected ") + kExpected + ", got none (moesaic help)");
  }
  const std::string& first = words.front();
  if (first == "--version") {
    Options options;
    options.verb = Verb::version;
    return options;
  }
  if (first == "help" || first == "--help" || first == "-h") {
    Options options;
    options.help_text = overview();
    if (words.size() == 1 || words[1] == "help") return options;
    const VerbRow* row = find_verb(words[1]);
    if (row == nullptr) refuse("help", kExpected, words[1]);
    const std::string help = "--help";
    return parse_verb(*row, std::span(&help, 1));
  }
  const VerbRow* row = find_verb(first);
  if (row == nullptr) refuse("verb", kExpected, first);
  return parse_verb(*row, words.subspan(1));
}

}  // namespace moesaic::cli
