// SPDX-License-Identifier: Apache-2.0
// fig40: throughput over the concentration of the load, its rank correlation and bootstrap.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "experiment/statistics.hpp"
#include "experiment/summary_parts.hpp"
#include "moesaic/planner.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr double kLevel = 0.95;

/// Throughput of controls by their place in the order, of one process and arm.
using Controls = std::map<std::int64_t, double>;

/// The mean of the controls before and after this place, or the one that there is; 0 without any.
double balanced_tflops(const Controls& controls, std::int64_t order) {
  const auto after = controls.lower_bound(order);
  double sum = 0;
  int found = 0;
  if (after != controls.end()) {
    sum += after->second;
    ++found;
  }
  if (after != controls.begin()) {
    sum += std::prev(after)->second;
    ++found;
  }
  return found > 0 ? sum / found : 0;
}

std::string interval_words(const Correlation& correlation) {
  return format("%.2f, 95 %% interval [%.2f, %.2f]", correlation.rho, correlation.low,
                correlation.high);
}

std::string words_of_bin(const std::vector<BinMedian>& medians, std::int64_t bin) {
  for (const BinMedian& one : medians) {
    if (one.bin == bin) return percent(one.relative);
  }
  return "-";
}

}  // namespace

std::vector<HistogramMean> histogram_means(const RowSet& set, const std::string& arm,
                                           bool aligned) {
  std::map<std::int64_t, Controls> controls;
  for (const StoredRow& row : set.rows) {
    if (row.place.arm != arm || row.factor("control") != "true") continue;
    controls[row.place.process][row.order] = row.useful_tflops();
  }
  std::map<std::int64_t, HistogramMean> means;
  std::map<std::int64_t, std::vector<double>> values;
  for (const StoredRow& row : set.rows) {
    if (row.place.arm != arm || row.factor("aligned") != (aligned ? "true" : "false")) continue;
    const double balanced = balanced_tflops(controls[row.place.process], row.order);
    if (balanced <= 0) continue;
    const std::int64_t histogram = number_factor(row, "histogram");
    values[histogram].push_back(row.useful_tflops() / balanced);
    means[histogram] = {histogram, number_factor(row, "bin"), planner::measure_load(row.counts).i_h,
                        mean_of(values[histogram])};
  }
  std::vector<HistogramMean> result;
  result.reserve(means.size());
  for (const auto& [histogram, one] : means) result.push_back(one);
  return result;
}

std::vector<BinMedian> bin_medians(const std::vector<HistogramMean>& means) {
  std::map<std::int64_t, std::vector<double>> values;
  for (const HistogramMean& one : means) values[one.bin].push_back(one.relative);
  std::vector<BinMedian> medians;
  medians.reserve(values.size());
  for (const auto& [bin, some] : values) {
    medians.push_back({bin, std::ssize(some), median_of(some)});
  }
  return medians;
}

Correlation correlate(const std::vector<HistogramMean>& means) {
  static constexpr std::uint64_t kSeed = 1;
  const auto rho = [&](std::span<const std::size_t> chosen) {
    std::vector<double> i_h, relative;
    for (const std::size_t index : chosen) {
      i_h.push_back(means[index].i_h);
      relative.push_back(means[index].relative);
    }
    return spearman(i_h, relative);
  };
  std::vector<std::size_t> all(means.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.empty()) return {std::nan(""), std::nan(""), std::nan("")};
  const Interval interval = bootstrap(means.size(), kResamples, kLevel, kSeed, rho);
  return {rho(all), interval.low, interval.high};
}

std::string load_summary(const RowSet& set) {
  std::string text;
  for (const std::string& arm : arms_of(set)) {
    const std::vector<HistogramMean> tails = histogram_means(set, arm, false),
                                     twins = histogram_means(set, arm, true);
    const std::vector<BinMedian> of_tails = bin_medians(tails), of_twins = bin_medians(twins);
    std::set<std::int64_t> bins;
    for (const BinMedian& one : of_tails) bins.insert(one.bin);
    for (const BinMedian& one : of_twins) bins.insert(one.bin);
    Table table({{"I_H"}, {"multiples of 8 rows"}, {"whole tiles"}});
    for (const std::int64_t bin : bins) {
      table.add(
          {format("%.1f to %.1f", static_cast<double>(bin) / 10, static_cast<double>(bin + 1) / 10),
           words_of_bin(of_tails, bin), words_of_bin(of_twins, bin)});
    }
    text += (text.empty() ? "" : "\n") + arm +
            ": median throughput relative to the balanced controls around each block\n" +
            table.text() + "\n";
    for (const auto& [title, means] :
         {std::pair{"multiples of 8 rows", &tails}, std::pair{"whole tiles", &twins}}) {
      if (means->empty()) continue;
      text += format("Spearman of I_H and throughput, %s: %s (%zu histograms, %s resamples)\n",
                     title, interval_words(correlate(*means)).c_str(), means->size(),
                     grouped_digits(kResamples).c_str());
    }
  }
  return text;
}

}  // namespace moesaic::cli::experiment
