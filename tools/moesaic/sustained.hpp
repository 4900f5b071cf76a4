// SPDX-License-Identifier: Apache-2.0
// Seconds of one piece of work without a gap, as the device does it once its clock has settled.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu_load.hpp"
#include "moesaic/device_telemetry.hpp"
#include "regime.hpp"
#include "staging.hpp"

namespace moesaic::cli {

struct SustainedTimes {
  std::vector<double> samples_seconds;  ///< Of one call: each measured unit over its calls.
  std::int64_t warm_ups = 0, calls_per_sample = 0;
  std::int64_t late = 0;  ///< Units of conditioning and samples that the device had to wait for.
  std::vector<TelemetrySample> looks;  ///< While the samples ran, and only then.
  std::string why_no_looks;
  CpuLoad load;  ///< Of conditioning and samples.
};

/// `warm_ups` executes (fewer on a CPU), a pilot, then conditioning and measurement in one
/// submission, without a gap where nothing was late. `calls_per_sample`: of an earlier run of the
/// same work; 0: as the warm-ups suggest.
/// @throws like DeviceTimer.
SustainedTimes time_sustained(const Site& site, const std::function<void()>& call,
                              const SustainedRegions& regions, std::int64_t warm_ups,
                              std::int64_t calls_per_sample = 0);

}  // namespace moesaic::cli
