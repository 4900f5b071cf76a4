// SPDX-License-Identifier: Apache-2.0
// Device presets: every constant is there with its source, and the ratios that the report relies
// on.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

TEST(DevicePresets, EveryConstantIsPositiveAndSourced) {
  std::set<std::string> names;
  for (const DeviceModel& device : device_presets()) {
    SCOPED_TRACE(device.name);
    EXPECT_TRUE(names.insert(device.name).second);
    EXPECT_FALSE(device.description.empty());
    for (const Constant* constant :
         {&device.bf16_flops_per_second, &device.dram_bytes_per_second, &device.l2_bytes_per_second,
          &device.link_bytes_per_second, &device.num_sms, &device.l2_bytes}) {
      EXPECT_GT(constant->value, 0);
      EXPECT_GE(constant->source.size(), 10u) << constant->source;
    }
    // L2 feeds the SMs faster than DRAM does, or the weight term would make no sense.
    EXPECT_GT(device.l2_bytes_per_second.value, device.dram_bytes_per_second.value);
    EXPECT_EQ(&device_preset(device.name), &device);
  }
  for (const char* name : {"h200", "h200-measured", "h200-sustained", "h100", "h100-pcie", "b200",
                           "gb200", "b300", "gb300", "a100"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(DevicePresets, BalancePoints) {
  EXPECT_NEAR(balance_point(device_preset("h200")), 206.0, 0.1);
  EXPECT_NEAR(balance_point(device_preset("h200-measured")), 175.9, 0.1);
  EXPECT_DOUBLE_EQ(balance_point(device_preset("b300")), 281.25);
  EXPECT_DOUBLE_EQ(balance_point(device_preset("gb300")), 312.5);
}

TEST(DevicePresets, MeasuredConstantsSaySo) {
  const DeviceModel& device = device_preset("h200-measured");
  EXPECT_EQ(device.dram_bytes_per_second.value, 4.57e12);
  EXPECT_EQ(device.bf16_flops_per_second.value, 804e12);
  EXPECT_EQ(device_preset("h200-sustained").bf16_flops_per_second.value, 691e12);
  EXPECT_EQ(device.dram_bytes_per_second.source.find("measured on one NVIDIA H200, 2026-11-29"),
            0u);
}

TEST(DevicePresets, UnknownNameListsTheKnownOnes) {
  try {
    device_preset("h300");
    FAIL() << "h300 was accepted";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("\"h300\""), std::string::npos) << what;
    EXPECT_NE(what.find("h200-measured"), std::string::npos) << what;
    EXPECT_NE(what.find("gb300"), std::string::npos) << what;
  }
  EXPECT_THROW(device_preset(""), Error);
  EXPECT_THROW(device_preset("H200"), Error);
}

}  // namespace
}  // namespace moesaic::planner
