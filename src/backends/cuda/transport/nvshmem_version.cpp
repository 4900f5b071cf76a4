// SPDX-License-Identifier: Apache-2.0
// See nvshmem_version.hpp.

#include "backends/cuda/transport/nvshmem_version.hpp"

#include <nvshmem_host.h>

namespace moesaic::backends::cuda::transport {

NvshmemVersion header_version() {
  return {NVSHMEM_VENDOR_MAJOR_VERSION, NVSHMEM_VENDOR_MINOR_VERSION, NVSHMEM_VENDOR_PATCH_VERSION};
}

NvshmemVersion library_version() {
  NvshmemVersion version;
  nvshmemx_vendor_get_version_info(&version.major, &version.minor, &version.patch);
  return version;
}

std::string to_string(const NvshmemVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

Support versions_match(const NvshmemVersion& headers, const NvshmemVersion& library) {
  if (headers == library) {
    return {true, {}};
  }
  return {false, "libnvshmem_host.so.3 as loaded is version " + to_string(library) +
                     ", but this library was compiled with headers and device code of " +
                     to_string(headers) +
                     "; load the same version first (torch brings its own), or build against it"};
}

}  // namespace moesaic::backends::cuda::transport
