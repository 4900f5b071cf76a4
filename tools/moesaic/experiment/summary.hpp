// SPDX-License-Identifier: Apache-2.0
// What the rows of an experiment say, in the figures that its claim is stated in.
#pragma once

#include <string>
#include <vector>

#include "experiment/result_file.hpp"

namespace moesaic::cli::experiment {

/// Rows of one experiment under one protocol on one device; of equal places the last. At least one.
struct RowSet {
  std::string experiment, protocol, device;
  std::vector<StoredRow> rows;  ///< In the order of the file.
};
/// Every such set of `experiment` in the file, in the order of their first rows.
std::vector<RowSet> row_sets(const ResultFile& file, const std::string& experiment);

/// The set as text: its tables, statistics, and how many rows were throttled.
std::string summary_text(const RowSet& set);

// ---- Figures, apart from how they are printed.

/// A histogram of fig40: means over permutations and processes.
struct HistogramMean {
  std::int64_t histogram = 0, bin = 0;
  double i_h = 0, relative = 0;  ///< Throughput over that of the controls before and after.
};
/// Of the rows of `arm`; `aligned` chooses the twins. Rows without a control in their process are
/// left out.
std::vector<HistogramMean> histogram_means(const RowSet& set, const std::string& arm, bool aligned);

/// Spearman's rho of I_H and relative throughput with its 95 % bootstrap interval over histograms.
struct Correlation {
  double rho = 0, low = 0, high = 0;
};
Correlation correlate(const std::vector<HistogramMean>& means);
inline constexpr std::int64_t kResamples = 10000;

}  // namespace moesaic::cli::experiment
