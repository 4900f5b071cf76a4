// SPDX-License-Identifier: Apache-2.0
// The CUDA backend for sm_90a: finds devices. Its kernels are rows of the candidate list, of which
// this version has none, so that every problem on a CUDA device is refused in words.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace moesaic::backends::cuda {

const Backend& backend();

/// Devices in CUDA's order; `why_none` is set when there are none.
std::vector<DeviceInfo> devices(std::string& why_none);

}  // namespace moesaic::backends::cuda
