// SPDX-License-Identifier: Apache-2.0
// The one ordered list of backends. To add a backend, add a folder and one line in
// backend_list.cpp.
#pragma once

#include <span>

#include "backends/backend.hpp"

namespace moesaic::dispatch {

/// Best first; those of other device kinds are skipped by the caller.
std::span<const backends::Backend* const> all_backends();

/// The backend that serves a device kind's activation and workspace headers.
/// @throws Error{unsupported} when none was built for that kind.
const backends::Backend& activation_backend(DeviceKind kind);

/// The backend that serves memory, queues and time of `device`; its index is not looked at.
/// @throws Error{device_failure} naming `device` when this build serves none of its kind.
const backends::Backend& device_backend(Device device);

}  // namespace moesaic::dispatch
