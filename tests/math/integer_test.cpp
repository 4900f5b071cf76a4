// SPDX-License-Identifier: Apache-2.0
#include "math/integer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace moesaic::math {
namespace {

static_assert(floor_div(0, 5) == 0 && floor_div(4, 5) == 0 && floor_div(5, 5) == 1);
static_assert(floor_div<std::int32_t>(2147483647, 2) == 1073741823);
static_assert(floor_div<std::int64_t>(kInt64Max, 1) == kInt64Max);
static_assert(ceil_div(0, 5) == 0 && ceil_div(1, 5) == 1 && ceil_div(5, 5) == 1 &&
              ceil_div(6, 5) == 2);
static_assert(ceil_div<std::int64_t>(kInt64Max, 2) == (std::int64_t{1} << 62));
static_assert(ceil_div<std::int32_t>(2147483647, 128) == 16777216);
static_assert(round_up<std::int64_t>((std::int64_t{1} << 40) + 1, 1024) ==
              (std::int64_t{1} << 40) + 1024);
static_assert(round_down(1023, 512) == 512 && round_down(1024, 512) == 1024);
static_assert(!is_pow2(0) && is_pow2(1) && is_pow2(64) && !is_pow2(96) && !is_pow2(-4));
static_assert(log2_floor(0) == -1 && log2_floor(1) == 0 && log2_floor(255) == 7 &&
              log2_floor(256) == 8 && log2_floor(kInt64Max) == 62);
static_assert(count_ones(0) == 0 && count_ones(0xFFFFFFFFu) == 32 && count_ones(0x80000001u) == 2);
static_assert(count_ones(0x0F0F1248u) == 12);
static_assert(min(-1, 2) == -1 && max(-1, 2) == 2);
static_assert(saturating_add(kInt64Max - 1, 1) == kInt64Max &&
              saturating_add(kInt64Max, 1) == kInt64Max && saturating_add(2, 3) == 5);
static_assert(saturating_mul(0, kInt64Max) == 0 && saturating_mul(kInt64Max, 1) == kInt64Max);
static_assert(saturating_mul(std::int64_t{1} << 32, std::int64_t{1} << 31) == kInt64Max);
static_assert(saturating_mul(std::int64_t{1} << 31, std::int64_t{1} << 31) ==
              (std::int64_t{1} << 62));
// The product is 2¹²⁴: far outside 64 bits.
static_assert(mul_div_floor(std::int64_t{1} << 62, std::int64_t{1} << 62, std::int64_t{1} << 62) ==
              (std::int64_t{1} << 62));
static_assert(mul_div_floor(kInt64Max, kInt64Max, kInt64Max) == kInt64Max);
static_assert(mul_div_floor(kInt64Max, 2, 1) == kInt64Max, "saturates");
static_assert(mul_div_ceil(kInt64Max, 2, 1) == kInt64Max, "saturates");
static_assert(mul_div_floor(7, 3, 4) == 5 && mul_div_ceil(7, 3, 4) == 6);
static_assert(mul_div_floor(8, 3, 4) == 6 && mul_div_ceil(8, 3, 4) == 6);

TEST(Integer, DivisionAgreesWithItsDefinition) {
  for (std::int64_t a = 0; a < 200; ++a) {
    for (std::int64_t b = 1; b < 40; ++b) {
      const std::int64_t q = ceil_div(a, b);
      ASSERT_GE(q * b, a);
      ASSERT_LT((q - 1) * b, a);
      ASSERT_EQ(round_up(a, b) % b, 0);
      ASSERT_LT(round_up(a, b) - a, b);
      ASSERT_EQ(round_down(a, b) % b, 0);
      ASSERT_LT(a - round_down(a, b), b);
    }
  }
}

TEST(Integer, Log2FloorAtEveryPowerOfTwo) {
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    ASSERT_EQ(log2_floor(power), bit);
    ASSERT_EQ(log2_floor(power + (power - 1)), bit);
    ASSERT_TRUE(is_pow2(power));
    ASSERT_EQ(is_pow2(power + 1), bit == 0);
  }
}

TEST(Integer, WideQuotientSatisfiesTheDivisionIdentity) {
  std::mt19937_64 rng(7);
  for (int i = 0; i < 20000; ++i) {
    // Magnitudes of all sizes; the quotient must stay below 2⁶³ for the identity to apply.
    const auto draw = [&] { return static_cast<std::int64_t>(rng() >> (1 + rng() % 62)); };
    const std::int64_t a = draw();
    const std::int64_t divisor = max<std::int64_t>(draw(), 1);
    const std::int64_t b = min(draw(), divisor);
    const std::int64_t floor = mul_div_floor(a, b, divisor);
    const std::int64_t ceil = mul_div_ceil(a, b, divisor);
    // a · b = floor · divisor + r modulo 2⁶⁴ with 0 ≤ r < divisor; and b ≤ divisor bounds the
    // quotient.
    const std::uint64_t remainder =
        static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b) -
        static_cast<std::uint64_t>(floor) * static_cast<std::uint64_t>(divisor);
    ASSERT_LT(remainder, static_cast<std::uint64_t>(divisor))
        << a << " * " << b << " / " << divisor;
    ASSERT_LE(floor, a);
    ASSERT_EQ(ceil - floor, remainder == 0 ? 0 : 1);
    // The leading digits, which the identity modulo 2⁶⁴ cannot see.
    const double exact =
        static_cast<double>(a) / static_cast<double>(divisor) * static_cast<double>(b);
    ASSERT_NEAR(static_cast<double>(floor), exact, 1 + exact * 1e-15);
  }
}

}  // namespace
}  // namespace moesaic::math
