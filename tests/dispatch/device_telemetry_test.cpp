// SPDX-License-Identifier: Apache-2.0
// What looks at a device say together, the words for limits, and the silence of a CPU.
#include "moesaic/device_telemetry.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

using Words = std::vector<std::string>;

TelemetrySummary seen(std::uint64_t reasons) {
  TelemetrySummary summary;
  summary.reasons = reasons;
  return summary;
}

TEST(Telemetry, SummaryByHand) {
  const TelemetrySummary summary =
      summarize({{.sm_mhz = 1980, .mem_mhz = 3201, .power_w = 300, .temp_c = 40, .reasons = 0x1},
                 {.sm_mhz = 1500, .mem_mhz = 3201, .power_w = 690, .temp_c = 55, .reasons = 0x4},
                 {.sm_mhz = 1600, .mem_mhz = 2619, .power_w = 500, .temp_c = 50, .reasons = 0x0}},
                "");
  EXPECT_EQ(summary.samples, 3);
  EXPECT_EQ(summary.sm_mhz_min, 1500);
  EXPECT_EQ(summary.sm_mhz_median, 1600);
  EXPECT_EQ(summary.mem_mhz, 3201);
  EXPECT_EQ(summary.power_w, 690);
  EXPECT_EQ(summary.temp_c, 55);
  EXPECT_EQ(summary.reasons, 0x5U);
  EXPECT_TRUE(summary.throttled());
}

TEST(Telemetry, OnlyLimitsOfPowerAndHeatThrottle) {
  for (const std::uint64_t bit : {0x4, 0x8, 0x20, 0x40, 0x80}) {
    EXPECT_TRUE(seen(bit).throttled()) << bit;
  }
  for (const std::uint64_t bits : {0x0, 0x1, 0x2, 0x10, 0x100, 0x200}) {
    EXPECT_FALSE(seen(bits).throttled()) << bits;
  }
}

TEST(Telemetry, WordsOfEveryBit) {
  EXPECT_EQ(throttle_reasons(0), Words{});
  EXPECT_EQ(throttle_reasons(0x1), Words{});
  EXPECT_EQ(throttle_reasons(0x4 | 0x20), (Words{"sw_power_cap", "sw_thermal_slowdown"}));
  EXPECT_EQ(throttle_reasons(0x8 | 0x40 | 0x80),
            (Words{"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake"}));
  EXPECT_EQ(throttle_reasons(0x100 | 0x200), (Words{"display_clocks", "0x200"}));
}

TEST(Telemetry, NothingIsSeenOnACpuAndItSaysSo) {
  DeviceTelemetry telemetry{Device{}};
  const TelemetrySummary summary = telemetry.stop();
  EXPECT_EQ(summary.samples, 0);
  EXPECT_NE(summary.why_none.find("cpu"), std::string::npos) << summary.why_none;
  EXPECT_FALSE(summary.throttled());
  EXPECT_EQ(device_circumstances(Device{}).power_limit_w, 0);
}

TEST(Telemetry, EveryDeviceAnswersOrSaysWhyNot) {
  for (const DeviceInfo& device : list_devices().devices) {
    DeviceTelemetry first(device.device);
    DeviceTelemetry telemetry(std::move(first));
    const TelemetrySummary summary = telemetry.stop();
    EXPECT_EQ(summary.samples == 0, !summary.why_none.empty());
    EXPECT_EQ(telemetry.stop().samples, summary.samples);
    const std::vector<TelemetrySample> looks = telemetry.looks();
    EXPECT_EQ(static_cast<std::int64_t>(looks.size()), summary.samples);
    EXPECT_EQ(telemetry.why_none(), summary.why_none);
    for (std::size_t i = 1; i < looks.size(); ++i) {
      EXPECT_GT(looks[i].at_seconds, looks[i - 1].at_seconds);
    }
  }
}

TEST(Telemetry, RefusesADeviceThatIsNotThere) {
  const auto cuda_devices = static_cast<int>(list_devices().devices.size()) - 1;
  const Device absent{DeviceKind::cuda, cuda_devices};
  expect_error(ErrorCode::device_failure, {to_string(absent)},
               [&] { const DeviceTelemetry telemetry(absent); });
}

}  // namespace
}  // namespace moesaic::testing
