// SPDX-License-Identifier: Apache-2.0
// What the rows of an experiment say, in the figures that its claim is stated in.
#pragma once

#include <cstdint>
#include <map>
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
/// The same figures as one line of schema moesaic.experiment_summary/1; what is not there is null.
std::string summary_json(const RowSet& set);

// ---- Figures, apart from how they are printed. Throughput is useful, in TFLOP/s, by the mean of
// the samples; a figure without rows is NaN.

/// fig38, fig71: one number of routed rows.
struct SweepPoint {
  std::int64_t rows = 0, rows_per_expert = 0;
  std::map<std::string, double> mean_seconds, tflops;  ///< By arm.
  double padded_over_grouped = 0;                      ///< Times.
};
std::vector<SweepPoint> sweep_points(const RowSet& set);
/// The rows from which on grouped is faster than the padded batch and stays so; -1: never.
std::int64_t grouped_faster_from(const std::vector<SweepPoint>& points);

/// table44: one number of tokens, means over trials.
struct SplitPoint {
  struct Partition {
    std::int64_t experts = 0, trials = 0;
    double tflops = 0, over_dense = 0;  ///< The ratio is of the same trial's dense control.
  };
  std::int64_t tokens = 0;
  double dense_tflops = 0;
  std::vector<Partition> partitions;
};
std::vector<SplitPoint> split_points(const RowSet& set, const std::string& arm);

/// fig73: one arm at one size, medians over trials. A trial's clock and power are means.
struct ClockPoint {
  std::int64_t rows_per_expert = 0, trials = 0;
  std::string arm;
  double tflops = 0, sm_mhz = 0, tflops_per_mhz = 0, power_w = 0;
};
std::vector<ClockPoint> clock_points(const RowSet& set);
/// Looks at the device while rows were measured, and those in which a limit held the clock down.
struct Looks {
  std::int64_t all = 0, power_capped = 0, otherwise_limited = 0;
};
Looks looks_of(const RowSet& set);

/// A histogram of fig40: means over permutations and processes.
struct HistogramMean {
  std::int64_t histogram = 0, bin = 0;
  double i_h = 0, relative = 0;  ///< Throughput over that of the controls before and after.
};
/// Of the rows of `arm`; `aligned` chooses the twins. Rows without a control in their process are
/// left out.
std::vector<HistogramMean> histogram_means(const RowSet& set, const std::string& arm, bool aligned);

/// The histograms of one tenth of I_H.
struct BinMedian {
  std::int64_t bin = 0, histograms = 0;
  double relative = 0;
};
std::vector<BinMedian> bin_medians(const std::vector<HistogramMean>& means);

/// Spearman's rho of I_H and relative throughput with its 95 % bootstrap interval over histograms.
struct Correlation {
  double rho = 0, low = 0, high = 0;
};
Correlation correlate(const std::vector<HistogramMean>& means);
inline constexpr std::int64_t kResamples = 10000;

/// fig72: loads that agree in one figure at one number of rows, relative to the balanced one of the
/// same process: mean and range over processes.
struct PairPoint {
  struct Spread {
    double mean = 0, least = 0, most = 0;
  };
  std::int64_t rows = 0, processes = 0;
  std::string pair;
  double balanced_tflops = 0;
  Spread single_spike, three_hot;
};
std::vector<PairPoint> pair_points(const RowSet& set, const std::string& arm);

/// skew: times of one arm over those of grouped on the same records.
struct ReplayPoint {
  std::string bucket, arm;
  std::int64_t records = 0;
  double geometric_mean = 0, least = 0, most = 0;
};
std::vector<ReplayPoint> replay_points(const RowSet& set);
/// skew: the broadest and the most concentrated record at the same rows.
struct LoadPair {
  std::string pair, arm;
  double broad_seconds = 0, concentrated_seconds = 0;
};
std::vector<LoadPair> load_pairs(const RowSet& set);

}  // namespace moesaic::cli::experiment
