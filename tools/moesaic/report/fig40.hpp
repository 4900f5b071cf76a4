// SPDX-License-Identifier: Apache-2.0
// fig40: one point per histogram out of all its rows, and the statistics of its caption.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace moesaic::cli::report {

/// For each arm and for histograms with and without tile tails:
/// [{"arm", "aligned", "points": [{"histogram", "bin", "i_h", "counts", "relative", "low", "high",
/// "rows"}], "medians": [{"bin", "i_h", "relative"}], "spearman", "interval": [low, high],
/// "without_control"}].
/// `relative` is throughput over that of the balanced controls that bracket the row in its process,
/// the mean over permutations and processes; the interval is a 95 % percentile interval of 10,000
/// resamples of histograms. Statistics are null where there are fewer than three histograms.
nlohmann::ordered_json fig40_data(const std::vector<nlohmann::ordered_json>& rows,
                                  const std::vector<std::size_t>& chosen);

}  // namespace moesaic::cli::report
