// SPDX-License-Identifier: Apache-2.0
// L0: integer arithmetic that the rest of math/ is written in. Arguments are never negative unless
// a function says so. The standard library's own min, max, bit_width and popcount are host-only
// under nvcc.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "math/host_device.hpp"

namespace moesaic::math {

template <std::integral T>
MOESAIC_HD constexpr T min(T a, T b) {
  return b < a ? b : a;
}

template <std::integral T>
MOESAIC_HD constexpr T max(T a, T b) {
  return a < b ? b : a;
}

/// ⌊a / b⌋ for a ≥ 0, b > 0: without signs, which a GPU has no instructions for.
template <std::integral T>
MOESAIC_HD constexpr T floor_div(T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Unsigned>(a) / static_cast<Unsigned>(b));
}

/// ⌈a / b⌉ for a ≥ 0, b > 0. Cannot overflow: it never forms a + b − 1.
template <std::integral T>
MOESAIC_HD constexpr T ceil_div(T a, T b) {
  const T floor = floor_div(a, b);
  return static_cast<T>(floor + (a != floor * b ? 1 : 0));
}

/// The smallest multiple of `step` that is at least `a`; a ≥ 0, step > 0. The result must fit T.
template <std::integral T>
MOESAIC_HD constexpr T round_up(T a, T step) {
  return static_cast<T>(ceil_div(a, step) * step);
}

/// The largest multiple of `step` that is at most `a`; a ≥ 0, step > 0.
template <std::integral T>
MOESAIC_HD constexpr T round_down(T a, T step) {
  return static_cast<T>(a - a % step);
}

/// True for 1, 2, 4, …; false for 0 and for negative values.
template <std::integral T>
MOESAIC_HD constexpr bool is_pow2(T a) {
  return a > 0 && (a & (a - 1)) == 0;
}

/// ⌊log2(a)⌋ for a > 0; −1 for a ≤ 0.
template <std::integral T>
MOESAIC_HD constexpr int log2_floor(T a) {
  int log2 = -1;
  while (a > 0) {
    a = static_cast<T>(a / 2);
    ++log2;
  }
  return log2;
}

/// Bits of `a` that are set.
MOESAIC_HD constexpr std::int32_t count_ones(std::uint32_t a) {
  a -= (a >> 1) & 0x55555555u;
  a = (a & 0x33333333u) + ((a >> 2) & 0x33333333u);
  a = (a + (a >> 4)) & 0x0F0F0F0Fu;
  return static_cast<std::int32_t>((a * 0x01010101u) >> 24);
}

/// A variable, because nvcc lets a kernel read it but not call numeric_limits<T>::max().
template <std::integral T>
inline constexpr T kMaxOf = std::numeric_limits<T>::max();

inline constexpr std::int64_t kInt64Max = kMaxOf<std::int64_t>;

/// a + b for a, b ≥ 0, held at 2⁶³ − 1.
MOESAIC_HD constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  return a > kInt64Max - b ? kInt64Max : a + b;
}

/// a · b for a, b ≥ 0, held at 2⁶³ − 1.
MOESAIC_HD constexpr std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  return a != 0 && b > kInt64Max / a ? kInt64Max : a * b;
}

namespace detail {

struct WideProduct {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};

// 64 × 64 → 128 by 32-bit halves: -Wpedantic refuses __int128.
MOESAIC_HD constexpr WideProduct wide_mul(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kLow32 = 0xFFFFFFFFu;
  const std::uint64_t low = (a & kLow32) * (b & kLow32);
  const std::uint64_t cross = (a >> 32) * (b & kLow32) + (low >> 32);
  const std::uint64_t middle = (a & kLow32) * (b >> 32) + (cross & kLow32);
  return {(a >> 32) * (b >> 32) + (cross >> 32) + (middle >> 32), (middle << 32) | (low & kLow32)};
}

struct WideQuotient {
  std::int64_t quotient = 0;  // held at 2⁶³ − 1
  bool has_remainder = false;
};

// Restoring division, a bit at a time. divisor < 2⁶³, so the shifted remainder never overflows.
MOESAIC_HD constexpr WideQuotient wide_div(WideProduct value, std::uint64_t divisor) {
  std::uint64_t remainder = 0;
  std::uint64_t quotient = 0;
  for (int bit = 127; bit >= 0; --bit) {
    const std::uint64_t next = bit >= 64 ? value.high >> (bit - 64) : value.low >> bit;
    remainder = (remainder << 1) | (next & 1u);
    if (remainder < divisor) continue;
    remainder -= divisor;
    if (bit >= 63) return {kInt64Max, true};
    quotient |= std::uint64_t{1} << bit;
  }
  return {static_cast<std::int64_t>(quotient), remainder != 0};
}

}  // namespace detail

/// ⌊a · b / divisor⌋ with the product in 128 bits; a, b ≥ 0, divisor > 0. Held at 2⁶³ − 1.
MOESAIC_HD constexpr std::int64_t mul_div_floor(std::int64_t a, std::int64_t b,
                                                std::int64_t divisor) {
  return detail::wide_div(
             detail::wide_mul(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)),
             static_cast<std::uint64_t>(divisor))
      .quotient;
}

/// ⌈a · b / divisor⌉ with the product in 128 bits; a, b ≥ 0, divisor > 0. Held at 2⁶³ − 1.
MOESAIC_HD constexpr std::int64_t mul_div_ceil(std::int64_t a, std::int64_t b,
                                               std::int64_t divisor) {
  const detail::WideQuotient result = detail::wide_div(
      detail::wide_mul(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)),
      static_cast<std::uint64_t>(divisor));
  return saturating_add(result.quotient, result.has_remainder ? 1 : 0);
}

}  // namespace moesaic::math
