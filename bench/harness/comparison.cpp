// SPDX-License-Identifier: Apache-2.0
// See comparison.hpp.

#include "harness/comparison.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace moesaic::bench {
namespace {

constexpr int kWarmUpRounds = 2;

std::string describe(const CheckResult& result) {
  if (!result.first) {
    return "nothing was compared";
  }
  const Mismatch& first = *result.first;
  return std::to_string(result.mismatches) + " of " + std::to_string(result.elements) +
         " elements differ, first " + first.tensor + " at expert " + std::to_string(first.expert) +
         ", row " + std::to_string(first.row) + ", column " + std::to_string(first.column) +
         ": got " + std::to_string(first.got) + ", want " + std::to_string(first.want);
}

Measured checked(const std::string& comparison, const Arm& arm) {
  Measured measured;
  measured.check = arm.check();
  if (measured.check.elements == 0 || measured.check.mismatches != 0) {
    throw Error(ErrorCode::device_failure,
                comparison + "/" + arm.name + ": check failed: " + describe(measured.check));
  }
  return measured;
}

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void require_names(const Comparison& comparison, const std::vector<Arm>& arms) {
  const bool same =
      std::equal(arms.begin(), arms.end(), comparison.arms.begin(), comparison.arms.end(),
                 [](const Arm& arm, const std::string& name) { return arm.name == name; });
  if (!same) {
    throw Error(ErrorCode::invalid_argument,
                comparison.name + ": expected the arms that were announced, got others");
  }
}

void add_ratios(std::vector<Measured>& all) {
  for (Measured& one : all) {
    const auto other = std::find_if(all.begin(), all.end(), [&one](const Measured& candidate) {
      return candidate.arm.name == one.arm.ratio_to;
    });
    if (other != all.end()) {
      one.ratio = quantile(other->samples_seconds, 0.5) / quantile(one.samples_seconds, 0.5);
    }
  }
}

}  // namespace

double quantile(std::vector<double> samples, double fraction) {
  if (samples.empty()) {
    throw Error(ErrorCode::invalid_argument, "samples: expected at least one, got none");
  }
  std::sort(samples.begin(), samples.end());
  const double place = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double weight = place - static_cast<double>(below);
  return samples[below] * (1 - weight) + samples[above] * weight;
}

std::vector<Measured> measure(const Comparison& comparison, std::int64_t samples) {
  std::vector<Arm> arms = comparison.prepare();
  require_names(comparison, arms);
  std::vector<Measured> all;
  for (const Arm& arm : arms) {
    all.push_back(checked(comparison.name, arm));
  }
  for (std::int64_t round = -kWarmUpRounds; round < samples; ++round) {
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const double seconds = seconds_of(arms[i].run);
      if (round >= 0) {
        all[i].samples_seconds.push_back(seconds);
      }
    }
  }
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (arms[i].memory) {
      all[i].memory = arms[i].memory();
    }
    arms[i].check = nullptr;
    arms[i].run = nullptr;
    arms[i].memory = nullptr;
    all[i].arm = std::move(arms[i]);
  }
  add_ratios(all);
  return all;
}

}  // namespace moesaic::bench
