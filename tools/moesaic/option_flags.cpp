// SPDX-License-Identifier: Apache-2.0
// Flags that several verbs share.
#include "option_flags.hpp"

#include <CLI/CLI.hpp>

#include "arguments.hpp"
#include "moesaic/error.hpp"

namespace moesaic::cli {

void add(CLI::App& app, const std::string& flag, const std::string& value, const std::string& help,
         const std::function<void(const std::string&)>& read) {
  app.add_option_function<std::string>(flag, read, help)->type_name(value);
}

void add_integer(CLI::App& app, const std::string& flag, const std::string& help,
                 std::optional<std::int64_t>& target, std::int64_t low, std::int64_t high) {
  add(app, flag, "N", help, [&target, flag, low, high](const std::string& text) {
    target = parse_integer(flag, text, low, high);
  });
}

Capacity read_capacity(const std::string& text) {
  try {
    return parse_capacity(text);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) +
                                  "; FACTOR from 0.000001 to 1000000 with at most six decimals, S "
                                  "a whole number from 1 to 1000000");
  }
}

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

const char* const kSpecs =
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

}  // namespace moesaic::cli
