// SPDX-License-Identifier: Apache-2.0
#include "math/row_combine.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace moesaic::math {
namespace {

static_assert(add_plain(1.0F, 2.0F) == 3.0F && weighted(0.5F, 3.0F) == 1.5F);

TEST(RowCombine, OneRoundingPerTerm) {
  // The exact product 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11 before a sum that then gives 0.
  const float value = 1.0F + std::ldexp(1.0F, -12);
  EXPECT_EQ(add_weighted(-(1.0F + std::ldexp(1.0F, -11)), value, value), std::ldexp(1.0F, -24));
}

TEST(RowCombine, ASumBeginsAsPositiveZero) {
  EXPECT_FALSE(std::signbit(add_plain(0.0F, -0.0F)));
  EXPECT_FALSE(std::signbit(add_weighted(0.0F, 1.0F, -0.0F)));
  EXPECT_TRUE(std::isnan(add_weighted(0.0F, 0.0F, std::numeric_limits<float>::infinity())));
}

}  // namespace
}  // namespace moesaic::math
