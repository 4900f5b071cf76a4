// SPDX-License-Identifier: Apache-2.0
// Which rows are summarized together, and by what.
#include "experiment/summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "experiment/statistics.hpp"
#include "experiment/summary_parts.hpp"
#include "stats.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

struct Summary {
  const char* experiment;
  std::string (*text)(const RowSet&);
};
constexpr Summary kSummaries[] = {{"fig38", sweep_summary},   {"fig71", sweep_summary},
                                  {"table44", split_summary}, {"fig40", load_summary},
                                  {"fig72", pair_summary},    {"fig73", clock_summary},
                                  {"skew", replay_summary}};

}  // namespace

std::int64_t number_factor(const StoredRow& row, const std::string& name) {
  const std::string text = row.factor(name);
  return text.empty() || text.find_first_not_of("0123456789") != std::string::npos
             ? -1
             : std::stoll(text);
}

std::vector<std::string> arms_of(const RowSet& set) {
  std::vector<std::string> arms;
  arms.reserve(set.rows.size());
  for (const StoredRow& row : set.rows) arms.push_back(row.place.arm);
  std::sort(arms.begin(), arms.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a != "grouped", a) < std::pair(b != "grouped", b);
  });
  arms.erase(std::unique(arms.begin(), arms.end()), arms.end());
  return arms;
}

std::string tflops_words(double tflops) { return tflops > 0 ? format("%.4g", tflops) : "-"; }
std::int64_t throttled_rows(const RowSet& set) {
  return std::count_if(set.rows.begin(), set.rows.end(),
                       [](const StoredRow& row) { return row.throttled; });
}
std::int64_t unsteady_rows(const RowSet& set) {
  return std::count_if(set.rows.begin(), set.rows.end(),
                       [](const StoredRow& row) { return row.unsteady; });
}

std::string ratio_words(double ratio) { return std::isnan(ratio) ? "-" : format("%.3f", ratio); }

double mean_of(const std::vector<double>& values) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : mean(values);
}
double median_of(const std::vector<double>& values) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : median(values);
}

std::vector<RowSet> row_sets(const ResultFile& file, const std::string& experiment) {
  std::vector<RowSet> sets;
  std::map<std::pair<std::string, RowPlace>, std::size_t>
      known;  // device and place, index in a set
  for (const StoredRow& row : file.rows()) {
    if (row.place.experiment != experiment) continue;
    auto set = std::find_if(sets.begin(), sets.end(), [&](const RowSet& other) {
      return other.protocol == row.place.protocol && other.device == row.device;
    });
    if (set == sets.end()) {
      set = sets.insert(sets.end(), {experiment, row.place.protocol, row.device, {}});
    }
    const auto [earlier, fresh] = known.try_emplace({row.device, row.place}, set->rows.size());
    if (fresh) {
      set->rows.push_back(row);
    } else {
      set->rows[earlier->second] = row;
    }
  }
  return sets;
}

std::string summary_text(const RowSet& set) {
  const auto rows = static_cast<std::int64_t>(set.rows.size());
  std::string text = format("%s on %s, protocol %s, %s rows\n\n", set.experiment.c_str(),
                            set.device.c_str(), set.protocol.c_str(), grouped_digits(rows).c_str());
  for (const Summary& summary : kSummaries) {
    if (set.experiment == summary.experiment) text += summary.text(set);
  }
  const std::int64_t unsteady = unsteady_rows(set), throttled = throttled_rows(set);
  if (unsteady > 0) {
    text += format("\n%s of %s rows are unsteady: other processes were probably using the CPUs.\n",
                   grouped_digits(unsteady).c_str(), grouped_digits(rows).c_str());
  }
  if (throttled > 0) {
    text += format("\n%s of %s rows ran throttled: a limit of power or heat held the clock down.\n",
                   grouped_digits(throttled).c_str(), grouped_digits(rows).c_str());
  }
  return text;
}

}  // namespace moesaic::cli::experiment
