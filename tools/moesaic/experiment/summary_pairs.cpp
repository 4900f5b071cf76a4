// SPDX-License-Identifier: Apache-2.0
// fig72: histograms that agree in one figure. skew: histograms of the user.
#include <algorithm>
#include <cmath>

#include "experiment/summary_parts.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

/// Mean and range; NaN when empty.
PairPoint::Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {std::nan(""), std::nan(""), std::nan("")};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {mean_of(values), *least, *most};
}

std::string words_of(const PairPoint::Spread& spread) {
  if (std::isnan(spread.mean)) return "-";
  return percent(spread.mean) + " (" + percent(spread.least) + " to " + percent(spread.most) + ")";
}

/// One line of fig72's table: rows and the figure in which the loads agree.
struct Agreement {
  std::int64_t rows = 0;
  std::string pair;
  bool operator<(const Agreement& other) const {
    return std::tie(rows, pair) < std::tie(other.rows, other.pair);
  }
};

/// Seconds of every arm on one record.
using ByArm = std::map<std::string, double>;

/// Throughput of every load in every process, into means relative to the balanced load.
PairPoint pair_point(const Agreement& agreement,
                     const std::map<std::int64_t, std::map<std::string, double>>& processes) {
  std::vector<double> balanced, spike, three;
  for (const auto& [process, loads] : processes) {
    if (!loads.contains("balanced")) continue;
    balanced.push_back(loads.at("balanced"));
    if (loads.contains("single_spike")) {
      spike.push_back(loads.at("single_spike") / balanced.back());
    }
    if (loads.contains("three_hot")) three.push_back(loads.at("three_hot") / balanced.back());
  }
  return {agreement.rows,    std::ssize(balanced), agreement.pair,
          mean_of(balanced), spread_of(spike),     spread_of(three)};
}

std::string replayed(const RowSet& set) {
  Table table({{"bucket", Align::left},
               {"arm", Align::left},
               {"records"},
               {"time / grouped"},
               {"least"},
               {"most"}});
  for (const ReplayPoint& point : replay_points(set)) {
    table.add({point.bucket, point.arm, std::to_string(point.records),
               ratio_words(point.geometric_mean), ratio_words(point.least),
               ratio_words(point.most)});
  }
  return "Geometric mean over records of the time beside grouped on the same record\n" +
         table.text();
}

std::string pairs(const RowSet& set) {
  Table table({{"pair", Align::left},
               {"arm", Align::left},
               {"broad"},
               {"concentrated"},
               {"concentrated / broad"}});
  for (const LoadPair& one : load_pairs(set)) {
    table.add({one.pair, one.arm, duration(one.broad_seconds), duration(one.concentrated_seconds),
               ratio_words(one.concentrated_seconds / one.broad_seconds)});
  }
  if (table.rows() == 0) return {};
  return "\nThe broadest and the most concentrated record at the same rows\n" + table.text();
}

}  // namespace

std::vector<PairPoint> pair_points(const RowSet& set, const std::string& arm) {
  std::map<Agreement, std::map<std::int64_t, std::map<std::string, double>>> all;
  for (const StoredRow& row : set.rows) {
    if (row.place.arm != arm) continue;
    all[{number_factor(row, "rows"), row.factor("pair")}][row.place.process][row.factor("load")] =
        row.useful_tflops();
  }
  std::vector<PairPoint> points;
  points.reserve(all.size());
  for (const auto& [agreement, processes] : all) {
    points.push_back(pair_point(agreement, processes));
  }
  return points;
}

std::vector<ReplayPoint> replay_points(const RowSet& set) {
  std::map<std::string, std::map<std::string, ByArm>> buckets;  // bucket, case, arm
  for (const StoredRow& row : set.rows) {
    if (row.factor("pair").empty()) {
      buckets[row.factor("bucket")][row.place.key][row.place.arm] = row.mean_seconds;
    }
  }
  std::vector<ReplayPoint> points;
  for (const auto& [bucket, cases] : buckets) {
    for (const std::string& arm : arms_of(set)) {
      std::vector<double> ratios;
      double logs = 0;
      for (const auto& [key, arms] : cases) {
        if (arm == "grouped" || !arms.contains(arm) || !arms.contains("grouped")) continue;
        ratios.push_back(arms.at(arm) / arms.at("grouped"));
        logs += std::log(ratios.back());
      }
      if (ratios.empty()) continue;
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      points.push_back({bucket, arm, std::ssize(ratios),
                        std::exp(logs / static_cast<double>(ratios.size())), *least, *most});
    }
  }
  return points;
}

std::vector<LoadPair> load_pairs(const RowSet& set) {
  std::map<std::string, std::map<std::string, std::map<std::string, double>>> all;
  for (const StoredRow& row : set.rows) {
    if (!row.factor("pair").empty()) {
      all[row.factor("pair")][row.place.arm][row.factor("load")] = row.mean_seconds;
    }
  }
  std::vector<LoadPair> found;
  for (const auto& [key, arms] : all) {
    for (const auto& [arm, loads] : arms) {
      if (!loads.contains("broad") || !loads.contains("concentrated")) continue;
      found.push_back({key, arm, loads.at("broad"), loads.at("concentrated")});
    }
  }
  return found;
}

std::string pair_summary(const RowSet& set) {
  std::string text;
  for (const std::string& arm : arms_of(set)) {
    Table table(
        {{"rows"}, {"same", Align::left}, {"balanced TFLOP/s"}, {"single spike"}, {"three hot"}});
    for (const PairPoint& point : pair_points(set, arm)) {
      table.add({grouped_digits(point.rows), point.pair, tflops_words(point.balanced_tflops),
                 words_of(point.single_spike), words_of(point.three_hot)});
    }
    text += (text.empty() ? "" : "\n") + arm +
            ": throughput relative to the balanced load of the same process, mean and range\n" +
            table.text();
  }
  return text;
}

std::string replay_summary(const RowSet& set) { return replayed(set) + pairs(set); }

}  // namespace moesaic::cli::experiment
