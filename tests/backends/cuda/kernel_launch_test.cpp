// SPDX-License-Identifier: Apache-2.0
// What needs no device: a launch that fails says which. That it reports no other call's error is
// seen on a device, in tests/device and tests/ep.

#include "backends/cuda/launch/kernel_launch.hpp"

#include "support/expect_error.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

void no_kernel(int /*value*/) {}

TEST(KernelLaunch, AFailureNamesTheKernel) {
  testing::expect_error(ErrorCode::device_failure, {"made_up_kernel: cudaError"}, [] {
    launch_kernel("made_up_kernel", no_kernel, {1, 32}, nullptr, 7);
  });
}

}  // namespace
}  // namespace moesaic::backends::cuda::launch
