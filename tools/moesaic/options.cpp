// SPDX-License-Identifier: Apache-2.0
// The table of verbs and the reading of a command line. CLI11's complaints are reshaped here into
// one line each; the flags are declared in option_verbs.cpp. Only these files see CLI11, which is
// slow to compile.
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "arguments.hpp"
#include "moesaic/error.hpp"
#include "option_verbs.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

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
    {Verb::bench_ep, "bench ep", "Time the exchange of rows between ranks", declare_bench_ep},
    {Verb::experiment, "experiment", "Run a measured claim here, by its own protocol",
     declare_experiment},
    {Verb::report, "report", "One HTML page of results and histograms that opens without a network",
     declare_report},
};

std::string overview() {
  std::string text =
      "moesaic: expert layers of Mixture-of-Experts models on exactly the rows that routing "
      "made\n\n"
      "Usage: moesaic VERB [FLAGS]\n\nVerbs:\n";
  for (const VerbRow& row : kVerbs) text += format("  %-10s %s\n", row.name, row.summary);
  return text +
         "  help       This text, or that of a verb: moesaic help plan\n\n"
         "moesaic --version prints the version. Data goes to stdout, all else to stderr.\n"
         "Exit codes: 0 fine, 1 a check failed or a threshold was missed, 2 bad usage or input,\n"
         "3 no suitable device, 4 finished but cases were skipped, throttled or unsteady "
         "(--strict).\n";
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
  if (!flag.starts_with('-')) flag.insert(0, "--");
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
  options.words.assign(words.begin(), words.end());
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
  if (row.verb == Verb::experiment) check_experiment(options);
  if (row.verb == Verb::report) check_report(options);
  return options;
}

const VerbRow* find_verb(std::string_view word) {
  for (const VerbRow& row : kVerbs) {
    if (word == row.name) return &row;
  }
  return nullptr;
}

/// The first word, or the first two where they are a verb together.
std::string verb_of(std::span<const std::string> words) {
  if (words.size() > 1 && find_verb(words[0] + " " + words[1]) != nullptr) {
    return words[0] + " " + words[1];
  }
  return words[0];
}

}  // namespace

bool is_verb(std::string_view word) { return find_verb(word) != nullptr; }

Options parse_command_line(std::span<const std::string> words) {
  static constexpr const char* kExpected =
      "info, plan, run, verify, bench, experiment, report or help";
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
    const VerbRow* row = find_verb(verb_of(words.subspan(1)));
    if (row == nullptr) refuse("help", kExpected, words[1]);
    const std::string help = "--help";
    return parse_verb(*row, std::span(&help, 1));
  }
  const std::string verb = verb_of(words);
  const VerbRow* row = find_verb(verb);
  if (row == nullptr) refuse("verb", kExpected, first);
  return parse_verb(*row, words.subspan(verb == first ? 1 : 2));
}

}  // namespace moesaic::cli
