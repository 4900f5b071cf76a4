// SPDX-License-Identifier: Apache-2.0
// Words of two BF16 numbers, the first in the low half.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace moesaic::backends::cuda::ptx {

/// One rounding each, to nearest even.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
/// BF16 is the upper half of FP32.
__device__ __forceinline__ float low_bf16(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float high_bf16(std::uint32_t pair) {
  return __uint_as_float(pair & 0xFFFF0000U);
}

}  // namespace moesaic::backends::cuda::ptx
