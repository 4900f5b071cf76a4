// SPDX-License-Identifier: Apache-2.0
// fig72: histograms that agree in one figure. skew: histograms of the user.
#include <algorithm>
#include <cmath>

#include "experiment/summary_parts.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

struct Spread {
  std::vector<double> values;
  [[nodiscard]] std::string words() const {
    if (values.empty()) return "-";
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return percent(mean_of(values)) + " (" + percent(*least) + " to " + percent(*most) + ")";
  }
};

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

std::string replayed(const RowSet& set) {
  std::map<std::string, std::map<std::string, ByArm>> buckets;  // bucket, case, arm
  for (const StoredRow& row : set.rows) {
    if (row.factor("pair").empty()) {
      buckets[row.factor("bucket")][row.place.key][row.place.arm] = row.mean_seconds;
    }
  }
  Table table({{"bucket", Align::left},
               {"arm", Align::left},
               {"records"},
               {"time / grouped"},
               {"least"},
               {"most"}});
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
      table.add({bucket, arm, std::to_string(ratios.size()),
                 ratio_words(std::exp(logs / static_cast<double>(ratios.size()))),
                 ratio_words(*least), ratio_words(*most)});
    }
  }
  return "Geometric mean over records of the time beside grouped on the same record\n" +
         table.text();
}

std::string pairs(const RowSet& set) {
  std::map<std::string, std::map<std::string, std::map<std::string, const StoredRow*>>> all;
  for (const StoredRow& row : set.rows) {
    if (!row.factor("pair").empty()) {
      all[row.factor("pair")][row.place.arm][row.factor("load")] = &row;
    }
  }
  Table table({{"pair", Align::left},
               {"arm", Align::left},
               {"broad"},
               {"concentrated"},
               {"concentrated / broad"}});
  for (const auto& [key, arms] : all) {
    for (const auto& [arm, loads] : arms) {
      if (!loads.contains("broad") || !loads.contains("concentrated")) continue;
      const double broad = loads.at("broad")->mean_seconds,
                   concentrated = loads.at("concentrated")->mean_seconds;
      table.add(
          {key, arm, duration(broad), duration(concentrated), ratio_words(concentrated / broad)});
    }
  }
  if (table.rows() == 0) return {};
  return "\nThe broadest and the most concentrated record at the same rows\n" + table.text();
}

}  // namespace

std::string pair_summary(const RowSet& set) {
  std::string text;
  for (const std::string& arm : arms_of(set)) {
    std::map<Agreement, std::map<std::int64_t, std::map<std::string, double>>> all;
    for (const StoredRow& row : set.rows) {
      if (row.place.arm != arm) continue;
      all[{number_factor(row, "rows"), row.factor("pair")}][row.place.process][row.factor("load")] =
          row.useful_tflops();
    }
    Table table(
        {{"rows"}, {"same", Align::left}, {"balanced TFLOP/s"}, {"single spike"}, {"three hot"}});
    for (const auto& [agreement, processes] : all) {
      std::vector<double> balanced;
      Spread spike, three;
      for (const auto& [process, loads] : processes) {
        if (!loads.contains("balanced")) continue;
        balanced.push_back(loads.at("balanced"));
        for (const auto& [load, spread] :
             {std::pair{"single_spike", &spike}, std::pair{"three_hot", &three}}) {
          if (loads.contains(load)) spread->values.push_back(loads.at(load) / balanced.back());
        }
      }
      table.add({grouped_digits(agreement.rows), agreement.pair, tflops_words(mean_of(balanced)),
                 spike.words(), three.words()});
    }
    text += (text.empty() ? "" : "\n") + arm +
            ": throughput relative to the balanced load of the same process, mean and range\n" +
            table.text();
  }
  return text;
}

std::string replay_summary(const RowSet& set) { return replayed(set) + pairs(set); }

}  // namespace moesaic::cli::experiment
