// SPDX-License-Identifier: Apache-2.0
// From the words on the command line to the records of a verb: files and SPECs, selection,
// rescaling. The share of a rank is taken last, of the rescaled whole layer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "moesaic/planner.hpp"
#include "moesaic/routing.hpp"
#include "options.hpp"

namespace moesaic::cli {

/// What was read: one line per source for people, the warnings of the readers, and how much.
struct InputReport {
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
  std::int64_t records = 0;  ///< Whole records that were selected.
};

/// Reads every input and hands each selected record, rescaled but whole, to `sink` in input order.
/// A Table 42 shape lends a SPEC its rows and experts when those flags are absent.
/// @throws Error{invalid_argument} naming the file or flag; records may have gone out before.
InputReport read_inputs(const InputOptions& options, const planner::TrainingShape* training,
                        const std::function<void(routing::Record&&)>& sink);

/// The records that one whole record stands for: itself, one rank's share, or every rank's.
std::vector<routing::Record> shares(routing::Record&& record, const InputOptions& options);

/// The report's warnings, and its notes as well when `with_notes`, as lines on stderr.
void print_report(const InputReport& report, const std::string& verb, bool with_notes);

}  // namespace moesaic::cli
