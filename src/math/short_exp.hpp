// SPDX-License-Identifier: Apache-2.0
// L0: an exponential for the gates of a BF16 expert, over a base-2 exponential that is only good
// for what it is given: e^x = 2^(x log2 e), and at x = -80 a product rounded to FP32 is wrong by
// 4e-6.
#pragma once

#include "math/host_device.hpp"

namespace moesaic::math {

/// e^x for x ≤ 0 of at most eight significant bits, as BF16 has; for NaN what e^−104 gives: a gate
/// that is multiplied by what comes of it stays NaN. `exp2(t)` is asked for exact products −151 < t
/// ≤ 0 alone, subnormal results included. Error: that of exp2, 1.4e-7 and two roundings, relative.
template <class Exp2>
MOESAIC_HD constexpr float short_exp(float x, const Exp2& exp2) {
  constexpr float kLeast = -104.0F;  // e^x is below half the least subnormal number
  // log2 e in two parts; the first has 16 bits, so that its product with x is exact.
  constexpr float kHigh = 47274.0F / 32768.0F;
  constexpr float kLowTimesLn2 = 4.8884951e-6F;
  const float held = x > kLeast ? x : kLeast;  // one instruction, since kLeast for NaN
  const float power = exp2(held * kHigh);
  return power + power * (held * kLowTimesLn2);  // e^(held · low) to first order
}

}  // namespace moesaic::math
