// SPDX-License-Identifier: Apache-2.0
// A kernel launch that reports its own error. cudaGetLastError() behind <<<>>> would report what
// any call of the thread left, and take it away from whoever was to look for it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <type_traits>

#include "backends/cuda/launch/cuda_error.hpp"

namespace moesaic::backends::cuda::launch {

struct LaunchGrid {
  unsigned ctas = 1, threads = 1;
};

/// Enqueues `kernel` with `arguments`, converted to its parameters, on the current device.
/// @throws Error{device_failure} naming the kernel.
template <class... Parameters>
void launch_kernel(const char* name, void (*kernel)(Parameters...), LaunchGrid grid,
                   cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  std::array<void*, sizeof...(Parameters)> addresses = {&arguments...};
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(grid.ctas),
                              dim3(grid.threads), addresses.data(), 0, stream),
             name);
}

}  // namespace moesaic::backends::cuda::launch
