// SPDX-License-Identifier: Apache-2.0
// The flags of `report`.
#include <CLI/CLI.hpp>

#include "arguments.hpp"
#include "option_flags.hpp"
#include "option_verbs.hpp"

namespace moesaic::cli {

void declare_report(CLI::App& app, Options& options) {
  ReportFlags& report = options.report;
  PlanFlags& plan = options.plan;
  declare_input(app, options.input);
  declare_layer(app, options.input, false);
  app.add_option_function<std::vector<std::string>>(
         "--routing",
         [&report](const std::vector<std::string>& words) {
           report.routing.insert(report.routing.end(), words.begin(), words.end());
         },
         "Histograms to show: a routing file or SPEC; may be repeated")
      ->type_name("FILE|SPEC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add(app, "-o,--output", "FILE", "Where the page goes (needed); -: standard output",
      [&report](const std::string& text) { report.output = text; });
  add(app, "--title", "TEXT", "Title of the page",
      [&report](const std::string& text) { report.title = text; });
  add(app, "--plotly", "FILE", "plotly.min.js to embed; default: the one installed with moesaic",
      [&report](const std::string& text) { report.plotly = text; });
  add(app, "--tiles", "N,N,...", "Tile heights that the planner works out (8,16,32,64,128)",
      [&plan](const std::string& text) { plan.planner.tiles = parse_tiles(text); });
  add(app, "--capacity", "RULE", "Capacity of a padded batch: 1.25 (default) or 1.25:eight_row:S",
      [&plan](const std::string& text) { plan.planner.capacity = read_capacity(text); });
  app.footer(std::string(kSpecs) +
             "Examples:\n"
             "  moesaic report results.jsonl -o report.html\n"
             "  moesaic report before.jsonl after.jsonl --routing dump.json --ep 8 -o report.html\n"
             "  moesaic report counts:1,4,3,2 -o padding.html");
}

void check_report(const Options& options) {
  const InputOptions& input = options.input;
  if (options.report.output.empty()) refuse_usage("report", "-o: expected a file, got none");
  if (input.inputs.empty() && options.report.routing.empty()) {
    refuse_usage("report", "RESULTS: expected files of rows or --routing, got none");
  }
  if (input.ep && input.rank) {
    refuse_usage("report", "--rank: expected without --ep, whose ranks are all shown, got both");
  }
}

}  // namespace moesaic::cli
