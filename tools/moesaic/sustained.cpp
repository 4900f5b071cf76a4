// SPDX-License-Identifier: Apache-2.0
// Sustained times: warm-ups, pilot, conditioning, measurement.
#include "sustained.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "moesaic/device_timer.hpp"
#include "stats.hpp"

namespace moesaic::cli {
namespace {

/// Units that last at least so long; more than needed, since clocks that fall make the pilot's too
/// short and clocks that rise too long.
std::int64_t units_for(double seconds, double unit_seconds) {
  static constexpr double kMargin = 1.05;
  return std::max<std::int64_t>(1, std::llround(std::ceil(kMargin * seconds / unit_seconds)));
}

double mean_of_second_half(const std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return std::accumulate(middle, values.end(), 0.0) / static_cast<double>(values.end() - middle);
}

/// The looks of the last `seconds` before the last of them.
std::vector<TelemetrySample> last_looks(const std::vector<TelemetrySample>& looks, double seconds) {
  std::vector<TelemetrySample> last;
  for (const TelemetrySample& look : looks) {
    if (look.at_seconds >= looks.back().at_seconds - seconds) last.push_back(look);
  }
  return last;
}

}  // namespace

SustainedTimes time_sustained(const Site& site, const std::function<void()>& call,
                              const SustainedRegions& regions, std::int64_t warm_ups,
                              std::int64_t calls_per_sample) {
  static constexpr double kMostCalls = 20000;     // launches of one graph
  static constexpr std::int64_t kLeastUnits = 5;  // samples, however long one is
  const DeviceTimer timer(site.stream());
  SustainedTimes times;
  times.warm_ups = warm_ups_on(site.on_host(), warm_ups);
  const std::vector<std::function<void()>> first(static_cast<std::size_t>(times.warm_ups) + 1,
                                                 call);
  // Only to choose a number of calls: the host's launches may be in it, and no gate is needed.
  const double call_seconds = mean_of_second_half(timer.time(first, TimerGate::open));
  times.calls_per_sample =
      calls_per_sample > 0
          ? calls_per_sample
          : std::llround(std::clamp(regions.unit_seconds / call_seconds, 1.0, kMostCalls));
  const double guess = static_cast<double>(times.calls_per_sample) * call_seconds;
  const double unit_seconds = mean_of_second_half(
      timer.time_units(call, times.calls_per_sample, units_for(regions.pilot_seconds, guess))
          .seconds);
  const std::int64_t conditioning = units_for(regions.conditioning_seconds, unit_seconds);
  const std::int64_t measured =
      std::max(kLeastUnits, units_for(regions.measured_seconds, unit_seconds));
  DeviceTelemetry telemetry(site.device());
  const CpuLoadMeter meter;
  UnitTimes timed = timer.time_units(call, times.calls_per_sample, conditioning + measured);
  telemetry.stop();
  times.load = meter.stop();
  times.late = timed.late;
  std::vector<double>& units = timed.seconds;
  units.erase(units.begin(), units.begin() + conditioning);
  const double measured_seconds = std::accumulate(units.begin(), units.end(), 0.0);
  if (!telemetry.looks().empty()) times.looks = last_looks(telemetry.looks(), measured_seconds);
  times.why_no_looks = telemetry.why_none();
  for (const double seconds : units) {
    times.samples_seconds.push_back(seconds / static_cast<double>(times.calls_per_sample));
  }
  return times;
}

}  // namespace moesaic::cli
