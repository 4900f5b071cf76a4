// SPDX-License-Identifier: Apache-2.0
// Statistics that the experiments' captions name.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace moesaic::cli::experiment {

double mean(std::span<const double> values);

/// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values);

/// Spearman's rank correlation, ties by mean ranks; NaN for fewer than two pairs or when either
/// side is constant. @throws Error{invalid_argument} for different lengths.
double spearman(std::span<const double> x, std::span<const double> y);

struct Interval {
  double low = 0, high = 0;
};
/// Percentile interval of `statistic` over `resamples` draws of `count` indices with replacement;
/// the same seed gives the same interval. Draws on which the statistic is NaN are left out; NaN
/// when all are. @throws Error{invalid_argument} unless count and resamples are positive and 0 <
/// level < 1.
Interval bootstrap(std::size_t count, std::int64_t resamples, double level, std::uint64_t seed,
                   const std::function<double(std::span<const std::size_t>)>& statistic);

}  // namespace moesaic::cli::experiment
