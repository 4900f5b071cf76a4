// SPDX-License-Identifier: Apache-2.0
// The first argument of every grouped kernel.
#pragma once

#include <cuda.h>

namespace moesaic::backends::cuda {

struct TensorMaps {
  CUtensorMap a, b, d;
  // Smaller boxes (forward, dgrad): 64 and 16 rows of a, 128 columns of b.
  CUtensorMap a_few, a_fewest, b_few;
};

}  // namespace moesaic::backends::cuda
