// SPDX-License-Identifier: Apache-2.0
// The one public header that names a CUDA type.
#pragma once

#include <cuda_runtime_api.h>

#include "moesaic/stream.hpp"

namespace moesaic {

/// Wraps a stream of CUDA device `index`. moesaic does not own it.
inline Stream cuda_stream(cudaStream_t stream, int index) noexcept {
  return Stream::from_native({DeviceKind::cuda, index}, stream);
}

}  // namespace moesaic
