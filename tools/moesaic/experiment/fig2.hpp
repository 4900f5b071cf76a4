// SPDX-License-Identifier: Apache-2.0
// fig2: how far a dense and a routed feed-forward layer of equal FLOPs can get, by arithmetic.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiment/row_place.hpp"

namespace moesaic::cli::experiment {

/// Tokens at which curves have points: four to the octave, rounded, from 1 to 131,072.
std::vector<double> fig2_tokens();

/// One curve as a row of schema moesaic.roofline/1.
struct Fig2Row {
  RowPlace place;
  std::string json;
};
/// For every preset the dense curve, then the grouped one.
/// @throws Error{invalid_argument} for an unknown preset.
std::vector<Fig2Row> fig2_rows(std::span<const std::string> presets);

/// The curves as a table, and where each comes near its ceiling.
std::string fig2_text(std::span<const std::string> presets);

}  // namespace moesaic::cli::experiment
