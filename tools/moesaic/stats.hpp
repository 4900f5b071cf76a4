// SPDX-License-Identifier: Apache-2.0
// Time samples: how many to take, their median and quantiles.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace moesaic::cli {

/// The middle sample, or the mean of the two middle ones. @throws Error{invalid_argument} when
/// empty.
double median(std::vector<double> samples);

/// The value below which `fraction` of the samples lie, linear between neighbours.
/// @throws Error{invalid_argument} when there are no samples.
double quantile(std::vector<double> samples, double fraction);

/// Seconds of one call of `work`.
double time_once(const std::function<void()>& work);

/// Calls `work` 15 times when a sample is below 20 ms, else five times; no more once two seconds
/// have been measured. The warm-up is the caller's.
std::vector<double> time_samples(const std::function<void()>& work);

}  // namespace moesaic::cli
