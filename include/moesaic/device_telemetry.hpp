// SPDX-License-Identifier: Apache-2.0
// What a device ran at while something was measured: clocks, power, temperature, throttling. They
// are observed, never set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "moesaic/device.hpp"

namespace moesaic {

/// One look at a device. Megahertz, watts, degrees Celsius; NaN where the driver does not say.
struct TelemetrySample {
  double sm_mhz = 0, mem_mhz = 0, power_w = 0, temp_c = 0;
  std::uint64_t reasons = 0;  ///< NVML's bits of clock event reasons.
  double at_seconds = 0;      ///< When it was taken, from the start of the looking.
};

/// What was seen between start and stop.
struct TelemetrySummary {
  std::int64_t samples = 0;  ///< 0: nothing was seen, and the figures below mean nothing.
  std::string why_none;      ///< Why there are no samples.
  double sm_mhz_min = 0, sm_mhz_median = 0;
  double mem_mhz = 0, power_w = 0, temp_c = 0;  ///< Median clock; highest power and temperature.
  std::uint64_t reasons = 0;                    ///< Every bit that was seen.
  /// A limit of power or heat held the clock down for a part of the time.
  [[nodiscard]] bool throttled() const noexcept;
};

/// The words for NVML's bits: "sw_power_cap", "hw_thermal_slowdown", …; a bit without a word is
/// "0x200". The idle bit has none, since it limits nothing.
std::vector<std::string> throttle_reasons(std::uint64_t reasons);

/// Summarizes looks that were taken; with none, `why_none` stands for them.
TelemetrySummary summarize(const std::vector<TelemetrySample>& samples,
                           const std::string& why_none);

/// What does not change while a device runs. Empty and 0 where it is not known.
struct DeviceCircumstances {
  std::string driver;   ///< "580.159.04"
  std::string runtime;  ///< "CUDA 13.0", what the backend was built with.
  double power_limit_w = 0;
  bool ecc = false;
};
/// Asks the device's driver. Never throws for a driver that does not answer.
DeviceCircumstances device_circumstances(Device device);

/// Looks at a device every 5 ms from a thread of its own, through NVML, which is loaded when the
/// first of these asks for it. Where there is none, and on the CPU, nothing is seen and `why_none`
/// says why. Moves, does not copy.
class DeviceTelemetry {
 public:
  /// Begins to look. @throws Error{device_failure} when there is no such device.
  explicit DeviceTelemetry(Device device);
  ~DeviceTelemetry();
  DeviceTelemetry(DeviceTelemetry&&) noexcept;
  DeviceTelemetry& operator=(DeviceTelemetry&&) noexcept;

  /// Takes one more look, stops, and tells what was seen. A second call tells it again.
  TelemetrySummary stop();
  /// Every look in order, once stop() has been called; before that, none.
  [[nodiscard]] std::vector<TelemetrySample> looks() const;
  /// Why there are no looks; empty where there are some.
  [[nodiscard]] const std::string& why_none() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moesaic
