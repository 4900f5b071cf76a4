// SPDX-License-Identifier: Apache-2.0
// CUDA errors become moesaic::Error; the device a call works on is restored afterwards.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "moesaic/error.hpp"

namespace moesaic::backends::cuda::launch {

inline void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    throw Error(ErrorCode::device_failure, std::string(call) + ": " + cudaGetErrorName(error) +
                                               ", " + cudaGetErrorString(error));
  }
}

/// Makes `device` current; also gives a thread that never touched CUDA its context.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    check_cuda(cudaGetDevice(&previous_), "cudaGetDevice");
    changed_ = previous_ != device;
    thread_local int known = -1;  // whose context this thread has got here
    if (!changed_ && known == device) return;
    check_cuda(cudaSetDevice(device), "cudaSetDevice");
    known = device;
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (changed_) {
      cudaSetDevice(previous_);
    }
  }

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// For destructors: runs `body` with `device` current. An error is one of earlier work, which
/// reports it itself.
template <class Body>
void quietly_on_device(int device, const Body& body) noexcept {
  int previous = 0;
  if (cudaGetDevice(&previous) != cudaSuccess) return;
  cudaSetDevice(device);
  body();
  cudaSetDevice(previous);
}

}  // namespace moesaic::backends::cuda::launch
