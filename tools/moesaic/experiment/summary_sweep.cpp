// SPDX-License-Identifier: Apache-2.0
// fig38, fig71, table44 and fig73: throughput over size.
#include <algorithm>
#include <cmath>
#include <limits>

#include "experiment/summary_parts.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

/// Rows by a whole-number factor, then by arm.
using BySize = std::map<std::int64_t, std::map<std::string, std::vector<const StoredRow*>>>;

BySize by_size(const RowSet& set, const std::string& factor) {
  BySize result;
  for (const StoredRow& row : set.rows) {
    result[number_factor(row, factor)][row.place.arm].push_back(&row);
  }
  return result;
}

std::vector<double> tflops_of(const std::vector<const StoredRow*>& rows) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const StoredRow* row : rows) values.push_back(row->useful_tflops());
  return values;
}

/// Where grouped begins to be faster than the padded batch and stays so.
std::string crossover(const std::map<std::int64_t, double>& ratios) {
  std::int64_t from = -1;
  for (auto size = ratios.rbegin(); size != ratios.rend() && size->second > 1; ++size) {
    from = size->first;
  }
  if (ratios.empty()) return {};
  if (from < 0) return "\ngrouped is not faster than padded_bmm at the largest size\n";
  return "\ngrouped is faster than padded_bmm from " + grouped_digits(from) + " rows on\n";
}

/// Throughput of one arm on one partition and its dense control, paired by trial.
struct Paired {
  std::vector<double> split, dense, ratio;
};

Paired pair_up(const std::map<std::string, std::vector<const StoredRow*>>& by_arm,
               const std::string& arm, std::int64_t partition) {
  std::map<std::int64_t, double> dense;
  Paired paired;
  const auto each = [&](const std::string& wanted, const auto& take) {
    const auto found = by_arm.find(wanted);
    if (found == by_arm.end()) return;
    for (const StoredRow* row : found->second) {
      if (number_factor(*row, "partition") == partition) take(*row);
    }
  };
  each("dense", [&](const StoredRow& row) {
    dense[number_factor(row, "trial")] = row.useful_tflops();
    paired.dense.push_back(row.useful_tflops());
  });
  each(arm, [&](const StoredRow& row) {
    paired.split.push_back(row.useful_tflops());
    const auto same = dense.find(number_factor(row, "trial"));
    if (same != dense.end()) paired.ratio.push_back(row.useful_tflops() / same->second);
  });
  return paired;
}

/// One arm's partitions beside their dense controls, over the tokens.
std::string split_table(const RowSet& set, const std::string& arm) {
  static constexpr std::int64_t kPartitions[] = {4, 8};
  std::vector<Column> columns = {{"tokens"}, {"trials"}, {"dense"}};
  for (const std::int64_t partition : kPartitions) {
    columns.push_back({format("%lld experts", static_cast<long long>(partition))});
    columns.push_back({"/ dense"});
  }
  Table table(columns);
  for (const auto& [tokens, by_arm] : by_size(set, "tokens")) {
    std::vector<double> dense;
    std::vector<std::string> words;
    std::size_t trials = 0;
    for (const std::int64_t partition : kPartitions) {
      const Paired paired = pair_up(by_arm, arm, partition);
      dense.insert(dense.end(), paired.dense.begin(), paired.dense.end());
      trials = std::max(trials, paired.split.size());
      words.push_back(tflops_words(mean_of(paired.split)));
      words.push_back(ratio_words(mean_of(paired.ratio)));
    }
    words.insert(words.begin(),
                 {grouped_digits(tokens), std::to_string(trials), tflops_words(mean_of(dense))});
    table.add(std::move(words));
  }
  return table.text();
}

}  // namespace

std::string sweep_summary(const RowSet& set) {
  const std::vector<std::string> arms = arms_of(set);
  std::vector<Column> columns = {{"rows"}, {"per expert"}};
  for (const std::string& arm : arms) columns.push_back({arm});
  columns.push_back({"padded_bmm / grouped"});
  Table table(columns);
  std::map<std::int64_t, double> ratios;
  for (const auto& [rows, by_arm] : by_size(set, "rows")) {
    const StoredRow& any = *by_arm.begin()->second.front();
    std::vector<std::string> words = {
        grouped_digits(rows), grouped_digits(rows / static_cast<std::int64_t>(any.counts.size()))};
    for (const std::string& arm : arms) {
      const auto found = by_arm.find(arm);
      words.push_back(found == by_arm.end() ? "-"
                                            : tflops_words(found->second.back()->useful_tflops()));
    }
    double ratio = std::numeric_limits<double>::quiet_NaN();
    if (by_arm.contains("grouped") && by_arm.contains("padded_bmm")) {
      ratio =
          by_arm.at("padded_bmm").back()->mean_seconds / by_arm.at("grouped").back()->mean_seconds;
      ratios[rows] = ratio;
    }
    words.push_back(ratio_words(ratio));
    table.add(std::move(words));
  }
  return "Useful TFLOP/s by the mean of the samples, and how much longer the padded batch takes\n" +
         table.text() + crossover(ratios);
}

std::string split_summary(const RowSet& set) {
  std::string text;
  for (const std::string& arm : arms_of(set)) {
    if (arm == "dense") continue;
    text += (text.empty() ? "" : "\n") + arm +
            ": useful TFLOP/s, means over trials; a ratio is of the same trial's dense control\n" +
            split_table(set, arm);
  }
  return text;
}

std::string clock_summary(const RowSet& set) {
  Table table({{"rows per expert"},
               {"arm", Align::left},
               {"trials"},
               {"TFLOP/s"},
               {"SM MHz"},
               {"TFLOP/s per MHz"},
               {"W"}});
  const auto words_or_dash = [](const std::vector<double>& values, const char* pattern) {
    return values.empty() ? std::string("-") : format("%.*f", pattern[0] - '0', median_of(values));
  };
  for (const auto& [rows, by_arm] : by_size(set, "rows_per_expert")) {
    for (const auto& [arm, trials] : by_arm) {
      std::vector<double> clocks, per_clock, power;
      for (const StoredRow* row : trials) {
        if (row->sm_mhz > 0) {
          clocks.push_back(row->sm_mhz);
          per_clock.push_back(row->useful_tflops() / row->sm_mhz);
        }
        if (row->power_w > 0) power.push_back(row->power_w);
      }
      table.add({grouped_digits(rows), arm, std::to_string(trials.size()),
                 tflops_words(median_of(tflops_of(trials))), words_or_dash(clocks, "0"),
                 words_or_dash(per_clock, "3"), words_or_dash(power, "0")});
    }
  }
  return "Medians over trials of useful throughput, clock and power\n" + table.text();
}

}  // namespace moesaic::cli::experiment
