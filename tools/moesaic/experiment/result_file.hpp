// SPDX-License-Identifier: Apache-2.0
// Rows of experiments read back: which are there when a run goes on, and what they say.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiment/row_place.hpp"

namespace moesaic::cli::experiment {

/// A row as far as it is read back. Of a row of fig2 only the place.
struct StoredRow {
  RowPlace place;
  std::int64_t order = 0;
  std::map<std::string, std::string> factors;
  std::string device, git_sha;
  std::vector<std::int64_t> counts;
  std::int64_t n = 0, k = 0;
  std::uint64_t seed = 0;
  double mean_seconds = 0, useful_flops = 0, executed_flops = 0;
  double sm_mhz = 0, power_w = 0;  ///< Means of the looks of sustained rows; 0 without any.
  std::int64_t looks = 0, power_capped = 0, otherwise_limited = 0;  ///< Those looks, by reasons.
  bool throttled = false, unsteady = false;
  [[nodiscard]] double useful_tflops() const { return useful_flops / mean_seconds * 1e-12; }
  /// The factor's text; empty when there is none.
  [[nodiscard]] std::string factor(const std::string& name) const;
};

/// The rows with a passed check of one file, or of several that are read as one.
class ResultFile {
 public:
  /// No rows.
  ResultFile() = default;
  /// A file that is not there has no rows. @throws Error{invalid_argument} naming `flag`, file and
  /// line for what is no row; rows that were cut off or have no passed check are left out with a
  /// warning.
  ResultFile(const std::string& flag, const std::string& path) { add(flag, path); }
  /// Rows of another file behind those that are there. @throws like the constructor.
  void add(const std::string& flag, const std::string& path);

  [[nodiscard]] const std::vector<StoredRow>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] bool has(const RowPlace& place) const { return places_.contains(place); }

  /// That what is there of this experiment is of this design and device; a warning for rows of
  /// another commit. @throws Error{invalid_argument} naming --output and the row that is not.
  void require_same(const Design& design, const std::string& device);

 private:
  void take(const std::string& line, const std::string& place);

  std::string path_;            ///< Of the last file.
  std::int64_t unchecked_ = 0;  ///< Rows of the last file without a passed check.
  std::vector<StoredRow> rows_;
  std::set<RowPlace> places_;
  std::vector<std::string> warnings_;
};

}  // namespace moesaic::cli::experiment
