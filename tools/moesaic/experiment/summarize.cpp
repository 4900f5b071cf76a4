// SPDX-License-Identifier: Apache-2.0
// Rows of files, summarized together.
#include "experiment/summarize.hpp"

#include <cstdio>
#include <fstream>

#include "experiment/summary.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {

ExitCode summarize(const Options& options) {
  const ExperimentFlags& flags = options.experiment;
  const bool json = options.output.json;
  ResultFile rows;
  for (const std::string& path : flags.summarize_paths) {
    if (!std::ifstream(path)) refuse("--summarize", "a file of rows that can be read", path);
    rows.add("--summarize", path);
  }
  for (const std::string& warning : rows.warnings()) {
    std::fprintf(stderr, "moesaic experiment: warning: %s\n", warning.c_str());
  }
  const std::vector<RowSet> sets = row_sets(rows, flags.name);
  if (sets.empty()) {
    refuse("--summarize", "rows of " + flags.name + " with a passed check",
           join(flags.summarize_paths, ", ") + ", where none is");
  }
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::string text = json ? summary_json(sets[i]) : summary_text(sets[i]);
    std::fputs(((i > 0 && !json ? "\n" : "") + text).c_str(), stdout);
  }
  return ExitCode::fine;
}

}  // namespace moesaic::cli::experiment
