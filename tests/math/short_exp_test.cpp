// SPDX-License-Identifier: Apache-2.0
#include "math/short_exp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "math/activation.hpp"

namespace moesaic::math {
namespace {

struct LibraryExp2 {
  float operator()(float x) const {
    EXPECT_FALSE(x > 0.0F);
    EXPECT_FALSE(x <= -151.0F);
    return std::exp2(x);
  }
};

struct GateExp {
  float operator()(float x) const { return short_exp(x, LibraryExp2{}); }
};

float bf16(std::uint32_t bits) { return std::bit_cast<float>(bits << 16); }

TEST(ShortExp, EveryNegativeBf16) {
  for (std::uint32_t bits = 0x8000; bits <= 0xFF80; ++bits) {
    const float x = bf16(bits);
    const double exact = std::exp(static_cast<double>(x));
    // Below the least normal number a result has an absolute error.
    const double allowed = std::max(3.5e-7 * exact, std::ldexp(1.0, -149));
    ASSERT_NEAR(short_exp(x, LibraryExp2{}), exact, allowed) << x;
  }
}

// What a product rounded to FP32 gives instead: the reason for the split.
TEST(ShortExp, ARoundedProductIsNotEnough) {
  double worst = 0;
  for (std::uint32_t bits = 0x8000; bf16(bits) > -87.0F; ++bits) {
    const double exact = std::exp(static_cast<double>(bf16(bits)));
    const double plain = std::exp2(bf16(bits) * 1.44269504F);
    worst = std::max(worst, std::abs(plain / exact - 1));
  }
  EXPECT_GT(worst, 2e-6);
}

TEST(ShortExp, NanAndInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_LE(short_exp(kNan, LibraryExp2{}), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::isnan(silu(kNan, GateExp{})));
  EXPECT_TRUE(std::isnan(dswiglu(2.0F, kNan, 3.0F, GateExp{}).dup));
  EXPECT_TRUE(std::isnan(dswiglu(2.0F, kNan, 3.0F, GateExp{}).dgate));
  EXPECT_LE(short_exp(-kInfinity, LibraryExp2{}), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(silu(kInfinity, GateExp{}), kInfinity);
  EXPECT_TRUE(std::isnan(silu(-kInfinity, GateExp{})));
}

}  // namespace
}  // namespace moesaic::math
