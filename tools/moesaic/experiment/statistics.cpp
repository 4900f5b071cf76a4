// SPDX-License-Identifier: Apache-2.0
// Statistics that the experiments' captions name.
#include "experiment/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "experiment/draw.hpp"
#include "stats.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double pearson(std::span<const double> x, std::span<const double> y) {
  const double mean_x = mean(x), mean_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xy += dx * dy;
    xx += dx * dx;
    yy += dy * dy;
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : kNan;
}

}  // namespace

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = 0.5 * static_cast<double>(begin + 1 + end);
    for (std::size_t i = begin; i < end; ++i) result[order[i]] = shared;
    begin = end;
  }
  return result;
}

double spearman(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size()) {
    refuse("y", std::to_string(x.size()) + " values like x", std::to_string(y.size()));
  }
  return x.size() < 2 ? kNan : pearson(ranks(x), ranks(y));
}

Interval bootstrap(std::size_t count, std::int64_t resamples, double level, std::uint64_t seed,
                   const std::function<double(std::span<const std::size_t>)>& statistic) {
  if (count == 0 || resamples < 1 || !(level > 0 && level < 1)) {
    refuse("bootstrap", "count, resamples >= 1 and 0 < level < 1",
           format("%zu, %lld, %g", count, static_cast<long long>(resamples), level));
  }
  Draw draw(seed);
  std::vector<std::size_t> chosen(count);
  std::vector<double> values;
  for (std::int64_t i = 0; i < resamples; ++i) {
    for (std::size_t& index : chosen) index = static_cast<std::size_t>(draw.below(count));
    const double value = statistic(chosen);
    if (!std::isnan(value)) values.push_back(value);
  }
  if (values.empty()) return {kNan, kNan};
  const double tail = (1 - level) / 2;
  return {quantile(values, tail), quantile(values, 1 - tail)};
}

}  // namespace moesaic::cli::experiment
