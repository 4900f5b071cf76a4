// SPDX-License-Identifier: Apache-2.0
// Named ranges: which profiler sees them is the backend's.
#include "moesaic/profile_range.hpp"

#include "dispatch/backend_list.hpp"

namespace moesaic {

ProfileRange::ProfileRange(const std::string& name, Device device) noexcept
    : device_(device), marked_(dispatch::device_backend(device).begin_range(name.c_str())) {}

ProfileRange::~ProfileRange() {
  if (marked_) dispatch::device_backend(device_).end_range();
}

}  // namespace moesaic
