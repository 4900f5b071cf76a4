// SPDX-License-Identifier: Apache-2.0
// Approximate FP32 functions of the multi-function unit. Not volatile: equal calls are one.
#pragma once

#include <cmath>

#include "math/host_device.hpp"

namespace moesaic::backends::cuda::ptx {

/// 2^x within 2^-22.5, subnormal results included. Callable on both sides, as what math/ calls is.
struct Exp2 {
  MOESAIC_HD float operator()(float x) const {
#if defined(__CUDA_ARCH__)
    float result;
    asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return std::exp2(x);
#endif
  }
};

/// 1 / x within one unit in the last place, for normal x and 1 / x.
MOESAIC_HD inline float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return 1.0F / x;
#endif
}

}  // namespace moesaic::backends::cuda::ptx
