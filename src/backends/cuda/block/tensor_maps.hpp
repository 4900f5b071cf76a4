// SPDX-License-Identifier: Apache-2.0
// The first argument of every grouped kernel.
#pragma once

#include <cuda.h>

#include "backends/cuda/block/kernel_config.hpp"

namespace moesaic::backends::cuda {

struct TensorMaps {
  CUtensorMap a, b, d;
  // Smaller boxes: 128 columns of b; in forward and dgrad 64 and 16 rows of a. (Where CTAs are in
  // pairs there, b itself has 64 columns: see KernelConfig::b_box_columns.)
  CUtensorMap a_few, a_fewest, b_few;
};

}  // namespace moesaic::backends::cuda
