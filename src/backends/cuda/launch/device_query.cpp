// SPDX-License-Identifier: Apache-2.0
// See device_query.hpp.

#include "backends/cuda/launch/device_query.hpp"

#include <cuda_runtime_api.h>

namespace moesaic::backends::cuda::launch {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

DeviceInfo describe(int index) {
  DeviceInfo info;
  info.device = {DeviceKind::cuda, index};
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) {
    info.name = properties.name;
    info.compute_capability = properties.major * 10 + properties.minor;
    info.num_sms = properties.multiProcessorCount;
    info.smem_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
    info.l2_bytes = properties.l2CacheSize;
  }
  // Twice the memory clock (kHz) times the bus in bytes: the nominal rate of double-data-rate
  // memory.
  const double clock_hz = attribute(cudaDevAttrMemoryClockRate, index) * 1e3;
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8.0;
  info.dram_bytes_per_second = 2.0 * clock_hz * bus_bytes;
  return info;
}

}  // namespace

std::vector<DeviceInfo> query_devices(std::string& why_none) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    why_none = error != cudaSuccess ? std::string("no CUDA device: ") + cudaGetErrorString(error)
                                    : "no CUDA device: the driver reports none";
    return {};
  }
  std::vector<DeviceInfo> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int index = 0; index < count; ++index) {
    devices.push_back(describe(index));
  }
  return devices;
}

}  // namespace moesaic::backends::cuda::launch
