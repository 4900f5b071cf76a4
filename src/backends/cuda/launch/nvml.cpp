// SPDX-License-Identifier: Apache-2.0
// See nvml.hpp. The few functions that are used are declared here as NVML's API reference has them,
// since its header need not be installed.

#include "backends/cuda/launch/nvml.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <limits>

namespace moesaic::backends::cuda::launch {
namespace {

using NvmlDevice = void*;
constexpr int kSuccess = 0;
constexpr int kSmClock = 1, kMemoryClock = 2;
constexpr int kGpuTemperature = 0;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct NvmlApi {
  int (*init)() = nullptr;
  int (*handle_by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int kind, unsigned* mhz) = nullptr;
  int (*power)(NvmlDevice, unsigned* milliwatts) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned* milliwatts) = nullptr;
  int (*temperature)(NvmlDevice, int sensor, unsigned* celsius) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long* bits) = nullptr;
  int (*ecc_mode)(NvmlDevice, int* current, int* pending) = nullptr;
  int (*driver_version)(char*, unsigned length) = nullptr;
};

template <class Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

struct NvmlLibrary {
  NvmlApi api;
  std::string why_none;  ///< Empty when it works.
};

NvmlLibrary load() {
  NvmlLibrary result;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    result.why_none = std::string("NVML cannot be loaded: ") +
                      (reason == nullptr ? "libnvidia-ml.so.1 not found" : reason);
    return result;
  }
  NvmlApi& api = result.api;
  const bool whole = resolve(library, "nvmlInit_v2", api.init) &&
                     resolve(library, "nvmlDeviceGetHandleByPciBusId_v2", api.handle_by_pci) &&
                     resolve(library, "nvmlDeviceGetClockInfo", api.clock) &&
                     resolve(library, "nvmlDeviceGetPowerUsage", api.power) &&
                     resolve(library, "nvmlDeviceGetEnforcedPowerLimit", api.power_limit) &&
                     resolve(library, "nvmlDeviceGetTemperature", api.temperature) &&
                     resolve(library, "nvmlDeviceGetEccMode", api.ecc_mode) &&
                     resolve(library, "nvmlSystemGetDriverVersion", api.driver_version) &&
                     // Its older name is the one that every driver has.
                     (resolve(library, "nvmlDeviceGetCurrentClocksEventReasons", api.reasons) ||
                      resolve(library, "nvmlDeviceGetCurrentClocksThrottleReasons", api.reasons));
  if (!whole) {
    result.why_none = "the NVML found here lacks a function that is needed";
  } else if (const int status = api.init(); status != kSuccess) {
    result.why_none = "nvmlInit: nvmlReturn_t " + std::to_string(status);
  }
  return result;
}

/// Stays initialized for the life of the process.
const NvmlLibrary& nvml() {
  static const NvmlLibrary library = load();
  return library;
}

/// Null with the reason. By bus address, since NVML counts all devices and CUDA the visible ones.
NvmlDevice find(Device device, std::string& why_none) {
  if (!nvml().why_none.empty()) {
    why_none = nvml().why_none;
    return nullptr;
  }
  std::array<char, 32> address{};
  NvmlDevice handle = nullptr;
  if (cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device.index) !=
      cudaSuccess) {
    cudaGetLastError();
    why_none = to_string(device) + " has no PCI address";
  } else if (const int status = nvml().api.handle_by_pci(address.data(), &handle);
             status != kSuccess) {
    why_none = "NVML does not know " + to_string(device) + " at " + address.data() +
               ": nvmlReturn_t " + std::to_string(status);
    handle = nullptr;
  }
  return handle;
}

class NvmlSource final : public TelemetrySource {
 public:
  explicit NvmlSource(NvmlDevice handle) : handle_(handle) {}

  [[nodiscard]] TelemetrySample read() const override {
    const NvmlApi& api = nvml().api;
    TelemetrySample sample{kUnknown, kUnknown, kUnknown, kUnknown, 0};
    unsigned value = 0;
    if (api.clock(handle_, kSmClock, &value) == kSuccess) sample.sm_mhz = value;
    if (api.clock(handle_, kMemoryClock, &value) == kSuccess) sample.mem_mhz = value;
    if (api.power(handle_, &value) == kSuccess) sample.power_w = value * 1e-3;
    if (api.temperature(handle_, kGpuTemperature, &value) == kSuccess) sample.temp_c = value;
    unsigned long long bits = 0;
    if (api.reasons(handle_, &bits) == kSuccess) sample.reasons = bits;
    return sample;
  }

 private:
  NvmlDevice handle_;
};

}  // namespace

std::unique_ptr<TelemetrySource> nvml_source(Device device, std::string& why_none) {
  const NvmlDevice handle = find(device, why_none);
  return handle == nullptr ? nullptr : std::make_unique<NvmlSource>(handle);
}

DeviceCircumstances nvml_circumstances(Device device) {
  DeviceCircumstances result;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) {
    result.runtime =
        "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
  std::string why_none;
  const NvmlDevice handle = find(device, why_none);
  if (handle == nullptr) return result;
  const NvmlApi& api = nvml().api;
  std::array<char, 96> driver{};
  if (api.driver_version(driver.data(), static_cast<unsigned>(driver.size())) == kSuccess) {
    result.driver = driver.data();
  }
  unsigned milliwatts = 0;
  if (api.power_limit(handle, &milliwatts) == kSuccess) result.power_limit_w = milliwatts * 1e-3;
  int current = 0, pending = 0;
  if (api.ecc_mode(handle, &current, &pending) == kSuccess) result.ecc = current != 0;
  return result;
}

}  // namespace moesaic::backends::cuda::launch
