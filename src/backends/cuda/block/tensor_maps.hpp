// SPDX-License-Identifier: Apache-2.0
// The first argument of every grouped kernel.
#pragma once

#include <cuda.h>

#include <type_traits>

#include "backends/cuda/block/kernel_config.hpp"

namespace moesaic::backends::cuda {

struct TensorMaps {
  CUtensorMap a, b, d;
  // Smaller boxes: 128 columns of b; in forward and dgrad 64 and 16 rows of a. (Where CTAs are in
  // pairs there, b itself has 64 columns: see KernelConfig::b_box_columns.)
  CUtensorMap a_few, a_fewest, b_few;
};

/// Of the expert's products with the activation in their epilogue; d is H.
struct ExpertMaps : TensorMaps {
  CUtensorMap u;        ///< Stores U, or dU: panels of a part, one warp's rows high.
  CUtensorMap saved_u;  ///< dswiglu: loads U: panels of a part, a tile's rows high.
};

/// Of the epilogue alone: GCC 12 cannot name an alias over a config.
template <Epilogue kEpilogue>
using MapsOf = std::conditional_t<kEpilogue == Epilogue::store, TensorMaps, ExpertMaps>;

}  // namespace moesaic::backends::cuda
