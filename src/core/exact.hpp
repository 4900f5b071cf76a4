// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the oracle: loads to double, sums in double, one rounding. The reference backend
// and the checks stand on it.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "moesaic/dtype.hpp"

namespace moesaic::core {

inline double load(double value) { return value; }
inline double load(float value) { return value; }
inline double load(BFloat16 value) { return static_cast<float>(value); }

inline void store(double value, float& out) { out = static_cast<float>(value); }

/// Rounds once. Going through float alone would round twice: a value just off the middle of two
/// BF16 values may become that middle and then go the wrong way.
inline void store(double value, BFloat16& out) {
  const auto narrow = static_cast<float>(value);
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  const bool is_middle = (bits & 0xFFFFU) == 0x8000U;
  const auto back = static_cast<double>(narrow);
  if (is_middle && back != value && value == value) {
    const bool away_from_zero = std::abs(value) > std::abs(back);
    bits = away_from_zero ? bits + 1 : bits - 1;
  }
  out = BFloat16(std::bit_cast<float>(bits));
}

/// Lanes of partial sums, which the compiler keeps in vector registers.
inline constexpr std::int64_t kLanes = 8;

/// sum a[i] * b[i].
template <class A, class B>
double dot(const A* a, const B* b, std::int64_t count) {
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<std::size_t>(lane)] += load(a[i + lane]) * load(b[i + lane]);
    }
  }
  double total = 0;
  for (; i < count; ++i) {
    total += load(a[i]) * load(b[i]);
  }
  for (const double sum : sums) {
    total += sum;
  }
  return total;
}
/// A sum and the sum of its terms' magnitudes, from which its error bound follows.
struct Sum {
  double value = 0, magnitude = 0;

  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};

}  // namespace moesaic::core
