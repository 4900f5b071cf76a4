// SPDX-License-Identifier: Apache-2.0
// Clocks, power and limits of a device through NVML, loaded when one is asked for.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.hpp"

namespace moesaic::backends::cuda::launch {

/// Null with `why_none` set when NVML cannot be loaded or does not know the device.
std::unique_ptr<TelemetrySource> nvml_source(Device device, std::string& why_none);

/// Driver, power limit and ECC as far as NVML tells; the runtime always.
DeviceCircumstances nvml_circumstances(Device device);

}  // namespace moesaic::backends::cuda::launch
