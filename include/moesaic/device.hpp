// SPDX-License-Identifier: Apache-2.0
// Which device, and what moesaic has to know of it to plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moesaic {

/// Decides which section of the candidate list a plan looks at.
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// One device; the CPU is index 0 alone.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0".
std::string to_string(Device device);

/// What a plan depends on. Bandwidth and FLOP rates are nominal and 0 when unknown.
struct DeviceInfo {
  Device device{};
  std::string name;
  int compute_capability = 0;  ///< 90 for sm_90; 0 on a CPU.
  int num_sms = 0;  ///< Streaming multiprocessors; on a CPU the threads a product may use.
  std::int64_t smem_bytes_per_block = 0;
  std::int64_t l2_bytes = 0;
  double dram_bytes_per_second = 0;
  double bf16_flops_per_second = 0;
};

/// Asks the device. @throws Error{device_failure} when there is no such device, with the reason.
DeviceInfo query_device(Device device);

/// Every device that can be seen here: the CPU first, then CUDA devices in their order. Never
/// throws for a missing driver or toolkit: there are then no CUDA devices, and `why_no_cuda` says
/// why.
struct DeviceList {
  std::vector<DeviceInfo> devices;
  std::string why_no_cuda;
};
DeviceList list_devices();

}  // namespace moesaic
