// SPDX-License-Identifier: Apache-2.0
// fig40: one point per histogram out of all its rows, and the statistics of its caption.
#include "report/fig40.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "experiment/statistics.hpp"
#include "report/field.hpp"

namespace moesaic::cli::report {
namespace {

using Json = nlohmann::ordered_json;

double throughput_of(const Json& row) {
  return number(row, "work.useful_flops") / number(row, "timing.mean_s");
}

/// Controls of one arm in one process, by place in the order of execution.
using Controls = std::map<double, double>;

/// Mean of the control before and the one after; the only one at an end.
std::optional<double> balanced_at(const Controls& controls, double order) {
  const auto after = controls.upper_bound(order);
  if (controls.empty()) return std::nullopt;
  if (after == controls.begin()) return after->second;
  const auto before = std::prev(after);
  if (after == controls.end()) return before->second;
  return (before->second + after->second) / 2;
}

struct Point {
  const Json* row = nullptr;
  std::vector<double> relative;
};
struct Series {
  std::map<double, Point> points;  ///< By number of the histogram.
  std::int64_t without_control = 0;
};
using SeriesKey = std::pair<std::string, bool>;  ///< Arm, aligned.

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Json medians_json(const std::vector<Json>& points) {
  std::map<std::int64_t, std::pair<std::vector<double>, std::vector<double>>> bins;
  for (const Json& point : points) {
    auto& [i_h, relative] = bins[point["bin"].get<std::int64_t>()];
    i_h.push_back(point["i_h"].get<double>());
    relative.push_back(point["relative"].get<double>());
  }
  Json list = Json::array();
  for (const auto& [bin, values] : bins) {
    list.push_back(
        {{"bin", bin}, {"i_h", median(values.first)}, {"relative", median(values.second)}});
  }
  return list;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_statistics(Json& series, const std::vector<Json>& points) {
  static constexpr std::int64_t kResamples = 10000;
  static constexpr std::size_t kFewest = 3;
  series["spearman"] = nullptr;
  series["interval"] = nullptr;
  if (points.size() < kFewest) return;
  std::vector<double> x, y;
  for (const Json& point : points) {
    x.push_back(point["i_h"].get<double>());
    y.push_back(point["relative"].get<double>());
  }
  series["spearman"] = number_or_null(experiment::spearman(x, y));
  const auto statistic = [&](std::span<const std::size_t> drawn) {
    std::vector<double> u, v;
    for (const std::size_t index : drawn) {
      u.push_back(x[index]);
      v.push_back(y[index]);
    }
    return experiment::spearman(u, v);
  };
  const experiment::Interval interval =
      experiment::bootstrap(points.size(), kResamples, 0.95, 1, statistic);
  if (std::isfinite(interval.low)) series["interval"] = {interval.low, interval.high};
}

Json series_json(const SeriesKey& key, const Series& series) {
  std::vector<Json> points;
  for (const auto& [histogram, point] : series.points) {
    const auto [low, high] = std::minmax_element(point.relative.begin(), point.relative.end());
    const Json* counts = field(*point.row, "load.counts");
    points.push_back(
        {{"histogram", histogram},
         {"bin", static_cast<std::int64_t>(number(*point.row, "experiment.factors.bin"))},
         {"i_h", number(*point.row, "load.i_h")},
         {"counts", *counts},
         {"relative", experiment::mean(point.relative)},
         {"low", *low},
         {"high", *high},
         {"rows", point.relative.size()}});
  }
  Json json = {{"arm", key.first},
               {"aligned", key.second},
               {"points", points},
               {"medians", medians_json(points)},
               {"without_control", series.without_control}};
  add_statistics(json, points);
  return json;
}

bool is_true(const Json& row, const char* path) {
  const Json* value = field(row, path);
  return value != nullptr && *value == true;
}

}  // namespace

Json fig40_data(const std::vector<Json>& rows, const std::vector<std::size_t>& chosen) {
  std::map<std::pair<std::string, double>, Controls> controls;  // arm, process
  const auto process_of = [](const Json& row) {
    return std::pair(text(row, "experiment.arm"), number(row, "experiment.process"));
  };
  for (const std::size_t index : chosen) {
    const Json& row = rows[index];
    if (!is_true(row, "experiment.factors.control")) continue;
    controls[process_of(row)][number(row, "experiment.order")] = throughput_of(row);
  }
  std::map<SeriesKey, Series> all;
  for (const std::size_t index : chosen) {
    const Json& row = rows[index];
    if (is_true(row, "experiment.factors.control") || field(row, "load.counts") == nullptr)
      continue;
    Series& series = all[{text(row, "experiment.arm"), is_true(row, "experiment.factors.aligned")}];
    const std::optional<double> balanced =
        balanced_at(controls[process_of(row)], number(row, "experiment.order"));
    if (!balanced) {
      ++series.without_control;
      continue;
    }
    Point& point = series.points[number(row, "experiment.factors.histogram")];
    point.row = &row;
    point.relative.push_back(throughput_of(row) / *balanced);
  }
  Json list = Json::array();
  for (const auto& [key, series] : all) list.push_back(series_json(key, series));
  return list;
}

}  // namespace moesaic::cli::report
