// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: devices, their memory and time, and the grouped products, compiled for sm_90a.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace moesaic::backends::cuda {

const Backend& backend();

/// Devices in CUDA's order; `why_none` is set when there are none.
std::vector<DeviceInfo> devices(std::string& why_none);

/// Whether ranks on several GPUs can exchange rows here. Only where NVSHMEM was built in.
BackendStatus exchange_status();

}  // namespace moesaic::backends::cuda
