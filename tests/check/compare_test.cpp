// SPDX-License-Identifier: Apache-2.0
// The yardstick itself: half an ulp at every edge, one element against its bound, and the sample.
#include "check/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace moesaic::check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
double two_to(int exponent) { return std::ldexp(1.0, exponent); }

TEST(HalfUlp, AtBinadeEdges) {
  EXPECT_EQ(half_ulp(1.0, DType::bf16), two_to(-8));
  EXPECT_EQ(half_ulp(1.9921875, DType::bf16), two_to(-8));
  EXPECT_EQ(half_ulp(2.0, DType::bf16), two_to(-7));
  EXPECT_EQ(half_ulp(std::nextafter(1.0, 0.0), DType::bf16), two_to(-9));
  EXPECT_EQ(half_ulp(-3.0, DType::bf16), two_to(-7));
  EXPECT_EQ(half_ulp(1.0, DType::f32), two_to(-24));
  EXPECT_EQ(half_ulp(std::nextafter(1.0, 0.0), DType::f32), two_to(-25));
  EXPECT_EQ(half_ulp(16777216.0, DType::f32), 1.0);
}

TEST(HalfUlp, InTheSubnormalRangeAndAtTheTop) {
  for (const double value : {0.0, two_to(-140), two_to(-133), two_to(-126), two_to(-127)}) {
    EXPECT_EQ(half_ulp(value, DType::bf16), two_to(-134)) << value;
    EXPECT_EQ(half_ulp(value, DType::f32), two_to(-150)) << value;
  }
  EXPECT_EQ(half_ulp(two_to(-125), DType::bf16), two_to(-133));
  EXPECT_EQ(half_ulp(std::ldexp(255.0, 120), DType::bf16), two_to(119));
  EXPECT_EQ(half_ulp(std::numeric_limits<float>::max(), DType::f32), two_to(103));
  EXPECT_TRUE(std::isfinite(half_ulp(kInfinity, DType::bf16)));
  EXPECT_TRUE(std::isfinite(half_ulp(kNan, DType::bf16)));
}

/// For every BF16 value, half the distance to the next one.
TEST(HalfUlp, IsHalfTheDistanceToTheNextValue) {
  for (std::uint32_t bits = 0; bits < 0x7F7F; ++bits) {
    const double value = static_cast<float>(BFloat16::from_bits(static_cast<std::uint16_t>(bits)));
    const double next =
        static_cast<float>(BFloat16::from_bits(static_cast<std::uint16_t>(bits + 1)));
    ASSERT_EQ(half_ulp(value, DType::bf16), (next - value) / 2) << bits;
  }
}

bool accepts(double got, const Bounded& want) {
  CheckResult result;
  compare(got, want, {"d", 1, 2, 3}, result);
  EXPECT_EQ(result.elements, 1);
  EXPECT_EQ(result.mismatches == 0, !result.first.has_value());
  EXPECT_EQ(result.mismatches == 0, result.worst <= 1);
  return result.mismatches == 0;
}
Bounded exact(double value, DType dtype = DType::bf16) {
  return rounded(core::Sum{value, 0}, dtype);  // no accumulation error: one rounding only
}

TEST(Compare, OneRoundingAndNoMore) {
  EXPECT_TRUE(accepts(1.0, exact(1.0)));
  EXPECT_FALSE(accepts(1.0 + two_to(-7), exact(1.0)));
  EXPECT_FALSE(accepts(1.0 - two_to(-8), exact(1.0 + two_to(-9))));
  const double middle = 1.0 + two_to(-8);
  EXPECT_TRUE(accepts(1.0, exact(middle)));
  EXPECT_TRUE(accepts(1.0 + two_to(-7), exact(middle)));
  EXPECT_FALSE(accepts(1.0, exact(middle + two_to(-20))));
  EXPECT_FALSE(accepts(1.0 + two_to(-7), exact(middle - two_to(-20))));
  EXPECT_FALSE(accepts(0.0, exact(two_to(-133))));
  EXPECT_TRUE(accepts(0.0, exact(two_to(-134))));
  EXPECT_FALSE(accepts(-1.0, exact(1.0)));
  EXPECT_FALSE(accepts(1.0F + two_to(-23), exact(1.0, DType::f32)));
}

TEST(Compare, AccumulationErrorIsInProportionToTheMagnitude) {
  const core::Sum sum{1.0, 1024.0};
  const double allowed = 64 * two_to(-24) * 1024;
  const Bounded want = rounded(sum, DType::f32);
  EXPECT_TRUE(accepts(1.0 + allowed, want));
  EXPECT_TRUE(accepts(1.0 - allowed, want));
  EXPECT_FALSE(accepts(1.0 + 1.001 * allowed, want));
  EXPECT_FALSE(accepts(1.0 - 1.001 * allowed, want));
}

TEST(Compare, NanAndInfinity) {
  EXPECT_FALSE(accepts(kNan, exact(1.0)));
  EXPECT_FALSE(accepts(kNan, exact(0.0)));
  EXPECT_FALSE(accepts(kInfinity, exact(1.0)));
  EXPECT_FALSE(accepts(1.0, exact(kNan)));
  EXPECT_TRUE(accepts(kNan, exact(kNan)));
  EXPECT_TRUE(accepts(kInfinity, exact(kInfinity)));
  EXPECT_FALSE(accepts(-kInfinity, exact(kInfinity)));
  EXPECT_FALSE(accepts(kNan, exact(kInfinity)));
  EXPECT_FALSE(accepts(1.0, exact(kInfinity)));
}

/// Infinity is right only where rounding to nearest gives it: from largest + half an ulp on.
TEST(Compare, Overflow) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const double ulp = 2 * half_ulp(two_to(127), dtype);
    const double largest = two_to(128) - ulp;
    EXPECT_TRUE(accepts(largest, exact(largest, dtype)));
    EXPECT_FALSE(accepts(kInfinity, exact(largest, dtype)));
    EXPECT_FALSE(accepts(kInfinity, exact(largest - ulp, dtype)));
    EXPECT_FALSE(accepts(kInfinity, exact(largest + 0.4 * ulp, dtype)));
    EXPECT_TRUE(accepts(largest, exact(largest + 0.4 * ulp, dtype)));
    EXPECT_TRUE(accepts(kInfinity, exact(largest + 0.6 * ulp, dtype)));
    EXPECT_FALSE(accepts(largest, exact(largest + 0.6 * ulp, dtype)));
    EXPECT_TRUE(accepts(kInfinity, exact(two_to(140), dtype)));
    EXPECT_FALSE(accepts(-kInfinity, exact(two_to(140), dtype)));
    EXPECT_FALSE(accepts(largest, exact(two_to(140), dtype)));
    EXPECT_TRUE(accepts(-kInfinity, exact(-two_to(140), dtype)));
  }
}

TEST(Compare, AZeroBoundTakesOnlyTheValue) {
  EXPECT_TRUE(accepts(0.0, {0.0, 0.0}));
  EXPECT_FALSE(accepts(two_to(-133), {0.0, 0.0}));
  EXPECT_FALSE(accepts(kNan, {0.0, 0.0}));
}

TEST(Merge, AddsUpAndKeepsTheFirst) {
  CheckResult a, b, c;
  compare(1.0, exact(1.0), {"a", 0, 0, 0}, a);
  compare(9.0, exact(1.0), {"b", 1, 2, 3}, b);
  compare(5.0, exact(1.0), {"c", 4, 5, 6}, c);
  a.merge(b);
  a.merge(c);
  EXPECT_EQ(a.elements, 3);
  EXPECT_EQ(a.mismatches, 2);
  EXPECT_EQ(a.worst, b.worst);
  ASSERT_TRUE(a.first.has_value());
  EXPECT_EQ(a.first->tensor, "b");
  EXPECT_EQ(a.first->expert, 1);
  EXPECT_EQ(a.first->row, 2);
  EXPECT_EQ(a.first->column, 3);
  EXPECT_EQ(a.first->got, 9.0);
  EXPECT_EQ(a.first->want, 1.0);
  EXPECT_EQ(a.first->bound, two_to(-8));
}

TEST(Sample, FirstLastDistinctSorted) {
  for (const std::int64_t extent : {0, 1, 2, 3, 10, 1000}) {
    for (const std::int64_t count : {-1, 0, 1, 2, 4, 1000, 2000}) {
      const std::vector<std::int64_t> chosen = sample(extent, count, 7);
      const std::int64_t want = count < 0 ? extent : std::min(extent, count);
      ASSERT_EQ(static_cast<std::int64_t>(chosen.size()), want) << extent << " " << count;
      EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
      EXPECT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
      if (want > 0) {
        EXPECT_EQ(chosen.front(), 0);
      }
      if (want > 1) {
        EXPECT_EQ(chosen.back(), extent - 1);
      }
    }
  }
  EXPECT_EQ(sample(1000, 20, 1), sample(1000, 20, 1));
  EXPECT_NE(sample(1000, 20, 1), sample(1000, 20, 2));
}

}  // namespace
}  // namespace moesaic::check
