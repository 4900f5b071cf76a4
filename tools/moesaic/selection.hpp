// SPDX-License-Identifier: Apache-2.0
// Which records of the input a verb that executes works on.
#pragma once

#include <vector>

#include "input.hpp"

namespace moesaic::cli {

struct ChosenRecords {
  std::vector<routing::Record> records;
  InputReport report;
};

/// The selected records as their shares. Without --layer, --step or --rank: the first that has
/// rows, and a note of it. A Table 42 shape lends a SPEC its rows and experts.
/// @throws Error{invalid_argument} like read_inputs, and for more than 256 records.
ChosenRecords choose_records(const InputOptions& input, const planner::TrainingShape* training);

}  // namespace moesaic::cli
