// SPDX-License-Identifier: Apache-2.0
// BF16 rounding against a model in double precision, for every upper half and every kind of lower
// half.
#include "moesaic/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/exact.hpp"

namespace moesaic {
namespace {

static_assert(static_cast<float>(BFloat16(1.0F)) == 1.0F);
static_assert(BFloat16(1.00390625F).bits == 0x3F80, "1 + 2^-8 is a tie and goes to even");
static_assert(BFloat16(1.01171875F).bits == 0x3F82, "1 + 3 * 2^-8 is a tie and goes to even");
static_assert(std::is_trivially_copyable_v<BFloat16>);
static_assert(kDTypeOf<float> == DType::f32 && kDTypeOf<BFloat16> == DType::bf16 &&
              kDTypeOf<std::int32_t> == DType::i32);

double value_of(std::uint16_t bits) { return static_cast<float>(BFloat16::from_bits(bits)); }

/// Nearest of the two BF16 neighbours at or towards zero and away from it, ties to the even one.
std::uint16_t model(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::abs(value);
  const auto single = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude));
  // Start from truncation and walk: the single itself may have been rounded.
  auto low = static_cast<std::uint16_t>(single >> 16);
  while (low > 0 && value_of(low) > magnitude) {
    --low;
  }
  while (low < 0x7F7F && value_of(static_cast<std::uint16_t>(low + 1)) <= magnitude) {
    ++low;
  }
  const double below = value_of(low);
  const double above = low == 0x7F7F ? std::ldexp(1.0, 128) : value_of(low + 1);
  const double middle = (below + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && low % 2 != 0);
  return static_cast<std::uint16_t>(sign | (up ? low + 1 : low));
}

TEST(BFloat16Rounding, EveryUpperHalfWithEveryKindOfLowerHalf) {
  std::int64_t wrong = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    if ((upper & 0x7F80) == 0x7F80) {
      continue;  // infinities and NaN have their own test
    }
    for (const std::uint32_t lower :
         {0x0000U, 0x0001U, 0x4000U, 0x7FFFU, 0x8000U, 0x8001U, 0xC000U, 0xFFFFU}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      wrong += BFloat16(value).bits == model(value) ? 0 : 1;
      BFloat16 stored;
      core::store(static_cast<double>(value), stored);
      wrong += stored.bits == model(value) ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
}

/// Every BF16 value comes back from float unchanged, NaN payloads included.
TEST(BFloat16Rounding, RoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto value = BFloat16::from_bits(static_cast<std::uint16_t>(bits));
    const auto wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(wide)))) << bits;
    } else {
      ASSERT_EQ(BFloat16(wide).bits, bits);
    }
  }
}

TEST(BFloat16Rounding, NanStaysNanAndOverflowGoesToInfinity) {
  for (const std::uint32_t bits : {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU,
                                   0x7F80FFFFU, 0xFF80FFFFU}) {
    const BFloat16 narrow(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(narrow))) << bits;
    EXPECT_NE(narrow.bits & 0x40, 0) << "not quiet: " << bits;
    EXPECT_EQ(narrow.bits >> 15, bits >> 31) << bits;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(BFloat16(kInfinity).bits, 0x7F80);
  EXPECT_EQ(BFloat16(-kInfinity).bits, 0xFF80);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7F7F7FFFU)).bits, 0x7F7F);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7F7F8000U)).bits, 0x7F80);  // a tie, to even
  EXPECT_EQ(BFloat16(-0.0F).bits, 0x8000);
}

/// From double in one step: next to every middle, rounding through float would tie and go wrong.
TEST(StoreFromDouble, RoundsOnce) {
  std::int64_t wrong = 0, twice_would_differ = 0;
  for (std::uint32_t upper = 0; upper < 0x7F80; ++upper) {
    const double middle = (value_of(static_cast<std::uint16_t>(upper)) +
                           (upper == 0x7F7F ? std::ldexp(1.0, 128)
                                            : value_of(static_cast<std::uint16_t>(upper + 1)))) /
                          2;
    for (const double value : {middle, std::nextafter(middle, 0.0),
                               std::nextafter(middle, std::numeric_limits<double>::infinity())}) {
      for (const double sign : {1.0, -1.0}) {
        BFloat16 stored;
        core::store(sign * value, stored);
        wrong += stored.bits == model(sign * value) ? 0 : 1;
        twice_would_differ +=
            BFloat16(static_cast<float>(sign * value)).bits == model(sign * value) ? 0 : 1;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(twice_would_differ, 30'000);  // or the test shows nothing
}

TEST(StoreFromDouble, SpecialValues) {
  BFloat16 stored;
  core::store(std::numeric_limits<double>::quiet_NaN(), stored);
  EXPECT_TRUE(std::isnan(static_cast<float>(stored)));
  core::store(1e300, stored);
  EXPECT_EQ(stored.bits, 0x7F80);
  core::store(-1e300, stored);
  EXPECT_EQ(stored.bits, 0xFF80);
  core::store(1e-300, stored);
  EXPECT_EQ(stored.bits, 0);
  core::store(-1e-300, stored);
  EXPECT_EQ(stored.bits, 0x8000);
  core::store(std::ldexp(1.0, -134), stored);  // half the least subnormal: a tie, to zero
  EXPECT_EQ(stored.bits, 0);
  core::store(std::nextafter(std::ldexp(1.0, -134), 1.0), stored);
  EXPECT_EQ(stored.bits, 1);
}

TEST(DTypes, NamesAndSizes) {
  EXPECT_EQ(name(DType::f32), "f32");
  EXPECT_EQ(name(DType::bf16), "bf16");
  EXPECT_EQ(name(DType::f8_e4m3), "f8_e4m3");
  EXPECT_EQ(name(DType::e8m0), "e8m0");
  EXPECT_EQ(name(DType::i32), "i32");
  EXPECT_EQ(size_bytes(DType::f32), 4);
  EXPECT_EQ(size_bytes(DType::bf16), 2);
  EXPECT_EQ(size_bytes(DType::f8_e4m3), 1);
  EXPECT_EQ(size_bytes(DType::e8m0), 1);
  EXPECT_EQ(size_bytes(DType::i32), 4);
}

}  // namespace
}  // namespace moesaic
