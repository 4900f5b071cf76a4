// SPDX-License-Identifier: Apache-2.0
// Seconds of one piece of work without a gap, as the device does it once its clock has settled.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu_load.hpp"
#include "experiment/design.hpp"
#include "moesaic/device_telemetry.hpp"
#include "staging.hpp"

namespace moesaic::cli::experiment {

struct SustainedTimes {
  std::vector<double> samples_seconds;  ///< Of one call: each measured unit over its calls.
  std::int64_t calls_per_sample = 0;
  std::vector<TelemetrySample> looks;  ///< While the samples ran, and only then.
  TelemetrySummary clocks;             ///< Of these looks.
  CpuLoad load;                        ///< Of conditioning and samples.
};

/// Warm-ups, a pilot, then conditioning and measurement in one submission without a gap.
/// @throws like DeviceTimer.
SustainedTimes time_sustained(const Site& site, const std::function<void()>& call,
                              const Timing& timing);

}  // namespace moesaic::cli::experiment
