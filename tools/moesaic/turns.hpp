// SPDX-License-Identifier: Apache-2.0
// Arms that take turns: calls timed in rounds, with what the device ran at meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cpu_load.hpp"
#include "moesaic/device_telemetry.hpp"
#include "moesaic/device_timer.hpp"
#include "staging.hpp"

namespace moesaic::cli {

struct Rounds {
  std::int64_t warm_ups = 0, samples = 0;
};

struct TurnTimes {
  std::vector<std::vector<double>> samples_seconds;  ///< [call][sample], warm-ups left out.
  TelemetrySummary clocks;                           ///< Of the whole time, warm-ups included.
  CpuLoad load;                                      ///< The same of the host's CPUs.
};

/// Rounds of all calls, each round beginning with another: the first call of a round finds the
/// caches and the clock as the last one left them. No calls, no times.
TurnTimes time_in_turns(const Site& site, std::span<const std::function<void()>> calls,
                        const Rounds& rounds, TimerGate gate);

}  // namespace moesaic::cli
