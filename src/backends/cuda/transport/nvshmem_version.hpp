// SPDX-License-Identifier: Apache-2.0
// Which NVSHMEM was compiled against, and whether the library that is loaded now is the same.
#pragma once

#include <string>

#include "moesaic/error.hpp"

namespace moesaic::backends::cuda::transport {

struct NvshmemVersion {
  int major = 0, minor = 0, patch = 0;
  bool operator==(const NvshmemVersion&) const = default;
};

NvshmemVersion header_version();
NvshmemVersion library_version();
std::string to_string(const NvshmemVersion& version);

/// Device code of one version must not meet a host library of another. The loaded one may be
/// torch's: a process holds one library of that name.
Support versions_match(const NvshmemVersion& headers, const NvshmemVersion& library);

}  // namespace moesaic::backends::cuda::transport
