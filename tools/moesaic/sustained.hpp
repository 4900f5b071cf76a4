// SPDX-License-Identifier: Apache-2.0
// Seconds of one piece of work without a gap, as the device does it once its clock has settled.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu_load.hpp"
#include "moesaic/device_telemetry.hpp"
#include "staging.hpp"

namespace moesaic::cli {

/// How long a piece of work is done.
struct SustainedRegions {
  std::int64_t warm_ups = 10;  ///< A CPU's caches and pages take fewer.
  /// Seconds of each region, and of one unit of work without a gap.
  double pilot_seconds = 0, conditioning_seconds = 0, measured_seconds = 0, unit_seconds = 0;
};

struct SustainedTimes {
  std::vector<double> samples_seconds;  ///< Of one call: each measured unit over its calls.
  std::int64_t calls_per_sample = 0;
  std::vector<TelemetrySample> looks;  ///< While the samples ran, and only then.
  std::string why_no_looks;
  CpuLoad load;  ///< Of conditioning and samples.
};

/// Warm-ups, a pilot, then conditioning and measurement in one submission without a gap.
/// `calls_per_sample`: of an earlier run of the same work; 0: as the warm-ups suggest.
/// @throws like DeviceTimer.
SustainedTimes time_sustained(const Site& site, const std::function<void()>& call,
                              const SustainedRegions& regions, std::int64_t calls_per_sample = 0);

}  // namespace moesaic::cli
