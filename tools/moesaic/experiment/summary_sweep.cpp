// SPDX-License-Identifier: Apache-2.0
// fig38, fig71, table44 and fig73: throughput over size.
#include <algorithm>
#include <cmath>

#include "experiment/summary_parts.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr std::int64_t kPartitions[] = {4, 8};  // of table44

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
  std::vector<Column> columns = {{"tokens"}, {"trials"}, {"dense"}};
  for (const std::int64_t partition : kPartitions) {
    columns.push_back({format("%lld experts", static_cast<long long>(partition))});
    columns.push_back({"/ dense"});
  }
  Table table(columns);
  for (const SplitPoint& point : split_points(set, arm)) {
    std::int64_t trials = 0;
    std::vector<std::string> words;
    for (const SplitPoint::Partition& partition : point.partitions) {
      trials = std::max(trials, partition.trials);
      words.push_back(tflops_words(partition.tflops));
      words.push_back(ratio_words(partition.over_dense));
    }
    words.insert(words.begin(), {grouped_digits(point.tokens), std::to_string(trials),
                                 tflops_words(point.dense_tflops)});
    table.add(std::move(words));
  }
  return table.text();
}

/// One arm at one size: throughput, clock and power of its trials.
ClockPoint clock_point(std::int64_t rows, const std::string& arm,
                       const std::vector<const StoredRow*>& trials) {
  std::vector<double> clocks, per_clock, power;
  for (const StoredRow* row : trials) {
    if (row->sm_mhz > 0) {
      clocks.push_back(row->sm_mhz);
      per_clock.push_back(row->useful_tflops() / row->sm_mhz);
    }
    if (row->power_w > 0) power.push_back(row->power_w);
  }
  return {rows,
          std::ssize(trials),
          arm,
          median_of(tflops_of(trials)),
          median_of(clocks),
          median_of(per_clock),
          median_of(power)};
}

}  // namespace

std::vector<SweepPoint> sweep_points(const RowSet& set) {
  std::vector<SweepPoint> points;
  for (const auto& [rows, by_arm] : by_size(set, "rows")) {
    const auto experts = std::ssize(by_arm.begin()->second.front()->counts);
    SweepPoint point{rows, rows / std::max<std::int64_t>(1, experts), {}, {}, std::nan("")};
    for (const auto& [arm, some] : by_arm) {
      point.mean_seconds[arm] = some.back()->mean_seconds;
      point.tflops[arm] = some.back()->useful_tflops();
    }
    if (by_arm.contains("grouped") && by_arm.contains("padded_bmm")) {
      point.padded_over_grouped =
          point.mean_seconds.at("padded_bmm") / point.mean_seconds.at("grouped");
    }
    points.push_back(std::move(point));
  }
  return points;
}

std::int64_t grouped_faster_from(const std::vector<SweepPoint>& points) {
  std::int64_t from = -1;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (std::isnan(point->padded_over_grouped)) continue;
    if (point->padded_over_grouped <= 1) break;
    from = point->rows;
  }
  return from;
}

std::vector<SplitPoint> split_points(const RowSet& set, const std::string& arm) {
  std::vector<SplitPoint> points;
  for (const auto& [tokens, by_arm] : by_size(set, "tokens")) {
    SplitPoint point{tokens, 0, {}};
    std::vector<double> dense;
    for (const std::int64_t partition : kPartitions) {
      const Paired paired = pair_up(by_arm, arm, partition);
      dense.insert(dense.end(), paired.dense.begin(), paired.dense.end());
      point.partitions.push_back(
          {partition, std::ssize(paired.split), mean_of(paired.split), mean_of(paired.ratio)});
    }
    point.dense_tflops = mean_of(dense);
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<ClockPoint> clock_points(const RowSet& set) {
  std::vector<ClockPoint> points;
  for (const auto& [rows, by_arm] : by_size(set, "rows_per_expert")) {
    for (const auto& [arm, trials] : by_arm) points.push_back(clock_point(rows, arm, trials));
  }
  return points;
}

Looks looks_of(const RowSet& set) {
  Looks looks;
  for (const StoredRow& row : set.rows) {
    looks.all += row.looks;
    looks.power_capped += row.power_capped;
    looks.otherwise_limited += row.otherwise_limited;
  }
  return looks;
}

std::string sweep_summary(const RowSet& set) {
  const std::vector<std::string> arms = arms_of(set);
  std::vector<Column> columns = {{"rows"}, {"per expert"}};
  for (const std::string& arm : arms) columns.push_back({arm});
  columns.push_back({"padded_bmm / grouped"});
  Table table(columns);
  const std::vector<SweepPoint> points = sweep_points(set);
  bool compared = false;
  for (const SweepPoint& point : points) {
    std::vector<std::string> words = {grouped_digits(point.rows),
                                      grouped_digits(point.rows_per_expert)};
    for (const std::string& arm : arms) {
      const auto found = point.tflops.find(arm);
      words.push_back(found == point.tflops.end() ? "-" : tflops_words(found->second));
    }
    words.push_back(ratio_words(point.padded_over_grouped));
    compared |= !std::isnan(point.padded_over_grouped);
    table.add(std::move(words));
  }
  const std::int64_t from = grouped_faster_from(points);
  return "Useful TFLOP/s by the mean of the samples, and how much longer the padded batch takes\n" +
         table.text() +
         (!compared ? ""
          : from < 0
              ? "\ngrouped is not faster than padded_bmm at the largest size\n"
              : "\ngrouped is faster than padded_bmm from " + grouped_digits(from) + " rows on\n");
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
  const auto words_or_dash = [](double value, int digits) {
    return std::isnan(value) ? std::string("-") : format("%.*f", digits, value);
  };
  for (const ClockPoint& point : clock_points(set)) {
    table.add({grouped_digits(point.rows_per_expert), point.arm, std::to_string(point.trials),
               tflops_words(point.tflops), words_or_dash(point.sm_mhz, 0),
               words_or_dash(point.tflops_per_mhz, 3), words_or_dash(point.power_w, 0)});
  }
  const Looks looks = looks_of(set);
  std::string text =
      "Medians over trials of useful throughput, clock and power; a trial's are means\n" +
      table.text();
  if (looks.all > 0) {
    const auto all = static_cast<double>(looks.all);
    text += "\nThe power cap held the clock down in " +
            percent(static_cast<double>(looks.power_capped) / all) + " of " +
            grouped_digits(looks.all) + " looks, another limit in " +
            percent(static_cast<double>(looks.otherwise_limited) / all) + ".\n";
  }
  return text;
}

}  // namespace moesaic::cli::experiment
