// SPDX-License-Identifier: Apache-2.0
// Asks the CUDA runtime which devices there are and what they can do.
#pragma once

#include <string>
#include <vector>

#include "moesaic/device.hpp"

namespace moesaic::backends::cuda::launch {

/// Devices in CUDA's order, asked for once in a process. With none, `why_none` holds the runtime's
/// own words.
std::vector<DeviceInfo> query_devices(std::string& why_none);

}  // namespace moesaic::backends::cuda::launch
