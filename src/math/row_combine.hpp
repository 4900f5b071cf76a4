// SPDX-License-Identifier: Apache-2.0
// L0: the arithmetic of combine and of weighted dispatch on scalars, in FP32. All forms of combine
// add the slots of a token in ascending order and round once at the end, so that they have the same
// bits.
#pragma once

#include "math/host_device.hpp"

namespace moesaic::math {

/// sum + prob · value with one rounding, on every machine. Said explicitly: a compiler may fuse a
/// product and a sum on one machine and not on another. (Not constexpr on every compiler.)
MOESAIC_HD inline float add_weighted(float sum, float prob, float value) {
  return __builtin_fmaf(prob, value, sum);
}

/// Without probabilities.
MOESAIC_HD constexpr float add_plain(float sum, float value) { return sum + value; }

/// An element of a weighted row before its rounding to the row's type.
MOESAIC_HD constexpr float weighted(float prob, float value) { return prob * value; }

}  // namespace moesaic::math
