// SPDX-License-Identifier: Apache-2.0
// What the page is given: the pieces of its one JSON object. Of its own, so that nlohmann-json
// stays out of the other files of the command.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "input.hpp"
#include "options.hpp"

namespace moesaic::cli::report {

using Json = nlohmann::ordered_json;

/// One file of rows, each checked against its schema.
struct ResultFile {
  std::string name;            ///< As given.
  std::uint64_t bytes = 0;     ///< Of the file.
  std::vector<Json> rows;      ///< With a passed check, in the order of the file.
  std::int64_t unchecked = 0;  ///< Rows left out because they have no passed check.
  std::vector<std::string> warnings;
};

/// True when the file says by its name (.jsonl) or its first line that it holds rows of results.
bool looks_like_results(const std::string& path);

/// Reads rows of moesaic.bench/1, moesaic.compare/1, moesaic.roofline/1, moesaic.bench_ep/1 and
/// moesaic.ep_arm/1. A row that an interrupt cut off and rows without a passed check are left out
/// with a warning.
/// @throws Error{invalid_argument} naming file, line and field of a row that is not of its schema,
/// and for a file without rows.
ResultFile read_results(const std::string& path);

/// Files DIR/NAME.part1.jsonl, DIR/NAME.part2.jsonl, ... are one file in pieces: their rows in the
/// order of the numbers as one, DIR/NAME.part*.jsonl, in the place of the first of them. A number
/// that is missing is a warning. All other files stay as they are.
std::vector<ResultFile> join_parts(std::vector<ResultFile> files);

/// {"files": [...], "figures": [...]}: rows sorted into the figures that may show them together.
/// Each figure has one kind, protocol and regime, and of rows between ranks one number of ranks and
/// one transport; each of its sets is one device of one file.
/// `preset` settles predictions where several device presets have the peaks of a row.
Json result_data(const std::vector<ResultFile>& files, const std::string& preset);

/// {"records": [...], "notes": [...], ...}: histograms with the planner's figures, which the page
/// works out again and compares. @throws Error{invalid_argument} for input that cannot be read, for
/// too much of it, and for rows beyond 2^53, which a page cannot count.
Json routing_data(const Options& options, const std::vector<std::string>& inputs,
                  InputReport& report);

/// The examples of the padding explorer with the planner's figures; needs no input.
Json explorer_data(const planner::PlanOptions& options);

/// {"name": "definition", ...} of every figure that the page names: the planner's, then those of
/// rows between ranks.
Json definition_data();

}  // namespace moesaic::cli::report
