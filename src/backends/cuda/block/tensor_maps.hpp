// SPDX-License-Identifier: Apache-2.0
// The first argument of every grouped kernel.
#pragma once

#include <cuda.h>

namespace moesaic::backends::cuda {

struct TensorMaps {
  CUtensorMap a, b, d;
};

}  // namespace moesaic::backends::cuda
