// SPDX-License-Identifier: Apache-2.0
// Time samples.
#include "stats.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "text.hpp"

namespace moesaic::cli {

double median(std::vector<double> samples) {
  if (samples.empty()) refuse("samples", "at least one", "none");
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  if (samples.size() % 2 == 1) return samples[middle];
  return 0.5 * (samples[middle - 1] + samples[middle]);
}

double quantile(std::vector<double> samples, double fraction) {
  if (samples.empty()) refuse("samples", "at least one", "none");
  std::sort(samples.begin(), samples.end());
  const double place = fraction * static_cast<double>(samples.size() - 1);
  const double below = std::floor(place);
  const auto index = static_cast<std::size_t>(below);
  const std::size_t next = std::min(index + 1, samples.size() - 1);
  return samples[index] + (place - below) * (samples[next] - samples[index]);
}

double time_once(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  work();
  // A clock tick is the least that can be told apart; zero would divide throughput by nothing.
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
}

std::vector<double> time_samples(const std::function<void()>& work) {
  static constexpr double kShortSeconds = 0.02, kMostSeconds = 2;
  static constexpr std::size_t kShortSamples = 15, kLongSamples = 5;
  std::vector<double> samples;
  double total = 0;
  // By the least: one interruption does not make a short sample a long one.
  double least = kMostSeconds;
  while (total < kMostSeconds &&
         samples.size() < (least < kShortSeconds ? kShortSamples : kLongSamples)) {
    samples.push_back(time_once(work));
    total += samples.back();
    least = std::min(least, samples.back());
  }
  return samples;
}

}  // namespace moesaic::cli
