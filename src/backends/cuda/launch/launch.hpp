// SPDX-License-Identifier: Apache-2.0
// Launching a grouped kernel. Maps and parameters travel as kernel arguments.
#pragma once

#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/block/tensor_maps.hpp"
#include "backends/cuda/launch/instances.hpp"

namespace moesaic::backends::cuda::launch {

/// Allows the kernel its shared memory on the current device.
void prepare(const Instance& instance);

/// One launch of `ctas` CTAs, rounded down to whole clusters, on `stream` (a cudaStream_t) of the
/// current device.
void launch(const Instance& instance, const TensorMaps& maps, const KernelParams& params, int ctas,
            void* stream);

}  // namespace moesaic::backends::cuda::launch
