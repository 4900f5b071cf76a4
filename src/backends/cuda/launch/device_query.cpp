// SPDX-License-Identifier: Apache-2.0
// See device_query.hpp.

#include "backends/cuda/launch/device_query.hpp"

#include <cuda_runtime_api.h>

#include <mutex>

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
  // A description has a hundred figures that the runtime collects anew each time, and every buffer
  // asks for one. Devices stay the same as long as a process lives; that there is none may change.
  static std::mutex mutex;
  static std::vector<DeviceInfo> known;
  const std::lock_guard lock(mutex);
  if (!known.empty()) return known;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    why_none = error != cudaSuccess ? std::string("no CUDA device: ") + cudaGetErrorString(error)
                                    : "no CUDA device: the driver reports none";
    return {};
  }
  known.reserve(static_cast<std::size_t>(count));
  for (int index = 0; index < count; ++index) {
    known.push_back(describe(index));
  }
  return known;
}

}  // namespace moesaic::backends::cuda::launch
