// SPDX-License-Identifier: Apache-2.0
// What the summaries of single experiments share.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiment/summary.hpp"

namespace moesaic::cli::experiment {

/// A whole-number factor; -1 when there is none.
std::int64_t number_factor(const StoredRow& row, const std::string& name);

/// Arms that the rows have, grouped first, the others by name.
std::vector<std::string> arms_of(const RowSet& set);

/// "771.9"; "-" for NaN or 0.
std::string tflops_words(double tflops);
/// "1.290"; "-" for NaN.
std::string ratio_words(double ratio);
std::int64_t throttled_rows(const RowSet& set);
std::int64_t unsteady_rows(const RowSet& set);
double mean_of(const std::vector<double>& values);    ///< NaN when empty.
double median_of(const std::vector<double>& values);  ///< NaN when empty.

std::string sweep_summary(const RowSet& set);   ///< fig38, fig71
std::string split_summary(const RowSet& set);   ///< table44
std::string load_summary(const RowSet& set);    ///< fig40
std::string pair_summary(const RowSet& set);    ///< fig72
std::string clock_summary(const RowSet& set);   ///< fig73
std::string replay_summary(const RowSet& set);  ///< skew

}  // namespace moesaic::cli::experiment
