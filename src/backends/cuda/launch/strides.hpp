// SPDX-License-Identifier: Apache-2.0
// Strides of views as kernels and libraries are told them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "moesaic/tensor.hpp"

namespace moesaic::backends::cuda::launch {

/// Elements between rows, `axis` of a matrix or of a matrix per expert. A matrix of one row may
/// have any stride, which is then not used.
inline std::int64_t row_stride(const ConstTensorView& matrix, std::size_t axis = 0) {
  return matrix.shape[axis] > 1 ? matrix.stride[axis] : matrix.shape[axis + 1];
}

}  // namespace moesaic::backends::cuda::launch
