// SPDX-License-Identifier: Apache-2.0
// Devices by name. Every constant says where it comes from: a datasheet's nominal figure, a
// measurement, or arithmetic on one of them. What a device really is, query_device says.
#include <array>
#include <string>

#include "moesaic/planner.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

constexpr double kMega = 1024.0 * 1024.0;
// L2 to SM, distinct data per SM: 9.0 TB/s over 132 SMs at 1.84 GHz, measured on one H200.
constexpr double kL2BytesPerClockPerSm = 37.0;

const std::string kMeasured = "measured on one NVIDIA H200, 2026-11-29";

Constant l2_rate(double num_sms, double clock_hz, const std::string& clock_source) {
  return {kL2BytesPerClockPerSm * num_sms * clock_hz,
          "derived: 37 B per clock and SM (measured on one NVIDIA H200, 2026-11-29) times the SMs "
          "at " +
              fixed(clock_hz * 1e-9, 3) + " GHz (" + clock_source + ")"};
}

DeviceModel h200() {
  const std::string sheet = "NVIDIA H200 datasheet, SXM, nominal";
  return {.name = "h200",
          .description = "NVIDIA H200 SXM 141 GB, nominal",
          .bf16_flops_per_second = {989e12, sheet + ": 1,979 TFLOP/s sparse, half of it dense"},
          .dram_bytes_per_second = {4.8e12, sheet},
          .l2_bytes_per_second = {9.0e12, kMeasured + ": distinct data per SM, 32 MiB footprint"},
          .link_bytes_per_second = {450e9, sheet + ": NVLink 900 GB/s both ways, one direction"},
          .num_sms = {132, "CUDA device properties of an H200"},
          .l2_bytes = {60 * kMega, "CUDA device properties of an H200"}};
}

DeviceModel h200_measured() {
  DeviceModel device = h200();
  device.name = "h200-measured";
  device.description = "NVIDIA H200 SXM, measured in short runs at 700 W";
  device.bf16_flops_per_second = {804e12, kMeasured + ": dense BF16 8192^3, short run"};
  device.dram_bytes_per_second = {4.57e12, kMeasured + ": pure read"};
  device.link_bytes_per_second = {394e9, kMeasured + ": peer copy over NVLink, two GPUs"};
  return device;
}

DeviceModel h200_sustained() {
  DeviceModel device = h200_measured();
  device.name = "h200-sustained";
  device.description = "NVIDIA H200 SXM, measured after seconds at its 700 W limit";
  device.bf16_flops_per_second = {691e12, kMeasured + ": dense BF16 8192^3, 3 s at 700 W"};
  return device;
}

DeviceModel h100() {
  const std::string sheet = "NVIDIA H100 datasheet, SXM, nominal";
  return {.name = "h100",
          .description = "NVIDIA H100 SXM5 80 GB, nominal",
          .bf16_flops_per_second = {989e12, sheet + ": 1,979 TFLOP/s sparse, half of it dense"},
          .dram_bytes_per_second = {3.35e12, sheet},
          .l2_bytes_per_second = l2_rate(132, 1.83e9, "the clock of the dense BF16 rate"),
          .link_bytes_per_second = {450e9, sheet + ": NVLink 900 GB/s both ways, one direction"},
          .num_sms = {132, "NVIDIA H100 architecture whitepaper, SXM5"},
          .l2_bytes = {50 * kMega, "NVIDIA H100 architecture whitepaper"}};
}

DeviceModel h100_pcie() {
  const std::string sheet = "NVIDIA H100 datasheet, PCIe, nominal";
  return {.name = "h100-pcie",
          .description = "NVIDIA H100 PCIe 80 GB, nominal",
          .bf16_flops_per_second = {756.5e12, sheet + ": 1,513 TFLOP/s sparse, half of it dense"},
          .dram_bytes_per_second = {2.0e12, sheet},
          .l2_bytes_per_second = l2_rate(114, 1.62e9, "the clock of the dense BF16 rate"),
          .link_bytes_per_second = {300e9, sheet + ": NVLink bridge 600 GB/s both ways, one "
                                                   "direction; 64 GB/s where there is only PCIe 5"},
          .num_sms = {114, "NVIDIA H100 architecture whitepaper, PCIe"},
          .l2_bytes = {50 * kMega, "NVIDIA H100 architecture whitepaper"}};
}

DeviceModel blackwell(const std::string& name, const std::string& description,
                      const Constant& flops, const Constant& dram, const Constant& num_sms,
                      double clock_hz, const std::string& clock_source) {
  return {.name = name,
          .description = description,
          .bf16_flops_per_second = flops,
          .dram_bytes_per_second = dram,
          .l2_bytes_per_second = l2_rate(num_sms.value, clock_hz, clock_source),
          .link_bytes_per_second = {900e9,
                                    "NVIDIA: NVLink 5, 1.8 TB/s per GPU both ways, one direction"},
          .num_sms = num_sms,
          .l2_bytes = {126 * kMega,
                       "nominal: reported for B200 by CUDA device properties in "
                       "public threads; not in a datasheet"}};
}

DeviceModel b200() {
  return blackwell(
      "b200", "NVIDIA B200 (HGX), nominal",
      {2250e12, "NVIDIA HGX B200 datasheet: 36 PFLOP/s sparse over 8 GPUs, half of it dense"},
      {8.0e12, "NVIDIA DGX B200 datasheet: 64 TB/s over 8 GPUs"},
      {148, "public measurements of a B200: 74 SMs on each of two dies"}, 1.965e9,
      "highest clock reported for a B200");
}

DeviceModel gb200() {
  return blackwell(
      "gb200", "NVIDIA GB200 (NVL72), nominal",
      {2500e12, "NVIDIA GB200 NVL72 datasheet: 360 PFLOP/s sparse over 72 GPUs, half of it dense"},
      {8.0e12, "NVIDIA GB200 NVL72 datasheet: 576 TB/s over 72 GPUs"},
      {152, "public threads on GB200 peak rates"}, 2.062e9, "highest clock reported for a GB200");
}

DeviceModel b300() {
  return blackwell(
      "b300", "NVIDIA B300 (HGX, Blackwell Ultra), nominal",
      {2250e12, "NVIDIA HGX B300 datasheet: 36 PFLOP/s sparse over 8 GPUs, half of it dense"},
      {8.0e12, "NVIDIA Technical Blog, Inside NVIDIA Blackwell Ultra, 2025-08: HBM3E, 8 TB/s"},
      {148,
       "derived: taken equal to B200; the whole chip has 160 (NVIDIA Technical Blog, 2025-08)"},
      2.032e9, "highest clock reported for a B300");
}

DeviceModel gb300() {
  return blackwell(
      "gb300", "NVIDIA GB300 (NVL72, Blackwell Ultra), nominal",
      {2500e12, "NVIDIA GB300 NVL72 datasheet: 360 PFLOP/s sparse over 72 GPUs, half of it dense"},
      {8.0e12, "NVIDIA GB300 NVL72 datasheet: 576 TB/s over 72 GPUs"},
      {152,
       "derived: taken equal to GB200; the whole chip has 160 (NVIDIA Technical Blog, "
       "2025-08)"},
      2.032e9, "taken equal to B300");
}

DeviceModel a100() {
  const std::string sheet = "NVIDIA A100 80GB datasheet, SXM, nominal";
  return {.name = "a100",
          .description = "NVIDIA A100 SXM4 80 GB, nominal",
          .bf16_flops_per_second = {312e12, sheet},
          .dram_bytes_per_second = {2.039e12, sheet},
          .l2_bytes_per_second = l2_rate(108, 1.41e9, "boost clock, A100 whitepaper"),
          .link_bytes_per_second = {300e9, sheet + ": NVLink 600 GB/s both ways, one direction"},
          .num_sms = {108, "NVIDIA A100 architecture whitepaper"},
          .l2_bytes = {40 * kMega, "NVIDIA A100 architecture whitepaper"}};
}

}  // namespace

std::span<const DeviceModel> device_presets() {
  static const std::array<DeviceModel, 10> presets = {
      h200(), h200_measured(), h200_sustained(), h100(),  h100_pcie(),
      b200(), gb200(),         b300(),           gb300(), a100()};
  return presets;
}

const DeviceModel& device_preset(std::string_view name) {
  std::string known;
  for (const DeviceModel& device : device_presets()) {
    if (device.name == name) return device;
    known += (known.empty() ? "" : ", ") + device.name;
  }
  refuse("device: expected one of " + known + ", got \"" + std::string(name) + "\"");
}

}  // namespace moesaic::planner
