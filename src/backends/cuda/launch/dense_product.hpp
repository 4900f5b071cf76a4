// SPDX-License-Identifier: Apache-2.0
// One expert's product of a pass, as a dense row-major product.
#pragma once

#include "backends/cuda/launch/cublas_api.hpp"
#include "backends/cuda/launch/strides.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::backends::cuda::launch {

inline const char* offset(const void* data, std::int64_t elements, std::int64_t element_bytes) {
  return static_cast<const char*>(data) + elements * element_bytes;
}

/// Expert `expert`'s product over `rows` rows, with operand addresses still those of expert and row
/// 0.
inline DenseProduct dense_product(const GroupedGemmProblem& problem, const GroupedGemmArgs& args,
                                  std::int64_t rows) {
  const bool enk = problem.weights == WeightStorage::enk;
  DenseProduct product;
  product.f32_out = problem.d_dtype == DType::f32;
  product.accumulate = problem.accumulate;
  if (problem.pass == Pass::wgrad) {
    const ConstTensorView& left = enk ? args.a.qdata : args.b.qdata;  // its columns are d's lines
    const ConstTensorView& right =
        enk ? args.b.qdata : args.a.qdata;  // its columns are d's columns
    product.m = left.shape[1];
    product.n = right.shape[1];
    product.k = rows;
    product.a = left.data;
    product.b = right.data;
    product.a_transposed = true;
    product.a_row_stride = row_stride(left, 0);
    product.b_row_stride = row_stride(right, 0);
    product.d_row_stride = row_stride(args.d, 1);
  } else {
    product.m = rows;
    product.n = args.d.shape[1];
    product.k = args.a.qdata.shape[1];
    product.a = args.a.qdata.data;
    product.b = args.b.qdata.data;
    product.b_transposed = (problem.pass == Pass::forward) == enk;
    product.a_row_stride = row_stride(args.a.qdata, 0);
    product.b_row_stride = row_stride(args.b.qdata, 1);
    product.d_row_stride = row_stride(args.d, 0);
  }
  product.d = args.d.data;
  return product;
}

}  // namespace moesaic::backends::cuda::launch
