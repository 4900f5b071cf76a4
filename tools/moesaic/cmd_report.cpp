// SPDX-License-Identifier: Apache-2.0
// moesaic report: rows of results and histograms in, one page out.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <utility>

#include "commands.hpp"
#include "moesaic/build_info.hpp"
#include "report/data.hpp"
#include "report/page.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

using report::Json;

/// What was given, sorted by what it holds.
struct Inputs {
  std::vector<std::string> results, routing;
};

Inputs sort_inputs(const Options& options) {
  Inputs inputs;
  for (const std::string& input : routing::expand_inputs(options.input.inputs)) {
    (report::looks_like_results(input) ? inputs.results : inputs.routing).push_back(input);
  }
  for (const std::string& input : routing::expand_inputs(options.report.routing)) {
    inputs.routing.push_back(input);
  }
  return inputs;
}

/// A slip of the order of words must not cost anybody the rows that they measured.
void require_other_file(const std::string& output, const Inputs& inputs) {
  for (const auto* list : {&inputs.results, &inputs.routing}) {
    for (const std::string& input : *list) {
      std::error_code ignored;
      if (input != "-" && std::filesystem::equivalent(input, output, ignored)) {
        refuse("-o", "another file than the inputs", output);
      }
    }
  }
}

std::string utc_minute() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc)};
}

Json meta_data(const Options& options) {
  const BuildInfo build = build_info();
  return {{"title", options.report.title},
          {"made", utc_minute()},
          {"command", options.command},
          {"version", build.version},
          {"git", {{"sha", build.git_sha}, {"dirty", build.git_dirty}}}};
}

}  // namespace

ExitCode cmd_report(const Options& options) {
  const Inputs inputs = sort_inputs(options);
  require_other_file(options.report.output, inputs);
  const std::string plotly = report::read_plotly(options.report.plotly);
  std::vector<report::ResultFile> files;
  files.reserve(inputs.results.size());
  InputReport read;
  for (const std::string& path : inputs.results) {
    files.push_back(report::read_results(path));
  }
  files = report::join_parts(std::move(files));
  const Json routing = report::routing_data(options, inputs.routing, read);
  for (const report::ResultFile& file : files) {
    read.warnings.insert(read.warnings.end(), file.warnings.begin(), file.warnings.end());
  }
  const Json results = report::result_data(files, options.plan.planner.device);
  const Json data = {{"meta", meta_data(options)},
                     {"definitions", report::definition_data()},
                     {"results", results},
                     {"routing", routing},
                     {"explorer", report::explorer_data(options.plan.planner)}};
  const std::string page = report::render_page(
      options.report.title, plotly, data.dump(-1, ' ', false, Json::error_handler_t::replace));
  print_report(read, "report", true);
  report::write_page(options.report.output, page);
  std::fprintf(stderr, "moesaic report: %s: %s, %zu figures of %zu result files, %lld histograms\n",
               options.report.output.c_str(), byte_count(static_cast<double>(page.size())).c_str(),
               results["figures"].size(), files.size(), static_cast<long long>(read.records));
  return ExitCode::fine;
}

}  // namespace moesaic::cli
