// SPDX-License-Identifier: Apache-2.0
// What the planner says of a measured row.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace moesaic::cli::report {

/// Adds "load": {i_h, i_max, effective_experts, counts} where the row has offsets.
void add_load(nlohmann::ordered_json& row);

/// Adds "predicted": {tile, kernel_s, bound_s, preset} to a row of the grouped product, forward or
/// dgrad, whose device has a preset: the one whose rates the row's peaks are, of several the one
/// named `preset`.
void add_prediction(nlohmann::ordered_json& row, const std::string& preset);

}  // namespace moesaic::cli::report
