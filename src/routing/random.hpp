// SPDX-License-Identifier: Apache-2.0
// Random draws and the two elementary functions they need, from IEEE operations alone: the same
// bits with every compiler, C library and standard library. Sources: Blackman and Vigna,
// xoshiro256**; Marsaglia and Tsang, A simple method for generating gamma variables (2000).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace moesaic::routing {

inline constexpr double kLn2High = 6.93147180369123816490e-01;  // ln 2 in two pieces, so that
inline constexpr double kLn2Low =
    1.90821492927058770002e-10;  // n * kLn2High is exact for |n| < 2^20

/// Natural logarithm of a positive, normal x; within a few ulp.
[[nodiscard]] inline double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact
  constexpr double kSqrtHalf = 0.70710678118654752440;
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double s2 = s * s;
  constexpr int kTerms = 15;  // |s| < 0.172, so s^31 is below 2^-78
  double sum = 0;
  for (int k = kTerms; k >= 0; --k) sum = sum * s2 + 1.0 / (2 * k + 1);
  return exponent * kLn2High + (2 * s * sum + exponent * kLn2Low);
}

/// e^x for x <= 0; 0 where that underflows.
[[nodiscard]] inline double portable_exp(double x) {
  if (x < -700) return 0;
  const double n = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  constexpr int kTerms = 18;  // |r| < 0.35
  double sum = 1;
  for (int k = kTerms; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, static_cast<int>(n));
}

/// xoshiro256** seeded by splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  [[nodiscard]] std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }
  /// Uniform in 0 to bound - 1, without bias.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t excess = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t draw = next();
    while (draw < excess) draw = next();
    return draw % bound;
  }
  /// Uniform in the open interval (0, 1).
  [[nodiscard]] double unit() { return (static_cast<double>(next() >> 12) + 0.5) * 0x1p-52; }
  [[nodiscard]] double normal() {
    for (;;) {  // Marsaglia's polar method; the second value is not kept, so draws stay independent
      const double u = 2 * unit() - 1, v = 2 * unit() - 1;
      const double s = u * u + v * v;
      if (s < 1 && s > 0) return u * std::sqrt(-2 * portable_log(s) / s);
    }
  }
  /// Logarithm of a Gamma(alpha, 1) draw: below alpha 1 the draw itself may underflow.
  [[nodiscard]] double log_gamma_draw(double alpha) {
    if (alpha < 1) {
      const double boost = portable_log(unit()) / alpha;
      return log_gamma_draw(alpha + 1) + boost;
    }
    const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal();
      const double root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (portable_log(unit()) < 0.5 * x * x + d - d * v + d * portable_log(v))
        return portable_log(d * v);
    }
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace moesaic::routing
