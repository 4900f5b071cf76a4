// SPDX-License-Identifier: Apache-2.0
// Numbers as text, at the edges of each form.
#include "planner/text.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace moesaic::planner {
namespace {

TEST(Text, GroupedDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(131072), "131,072");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::max()), "9,223,372,036,854,775,807");
}

TEST(Text, FixedPercentAndDuration) {
  EXPECT_EQ(fixed(1.0, 2), "1.00");
  EXPECT_EQ(fixed(1e300, 0).size(), 301u);
  EXPECT_EQ(percent(0.175), "17.5 %");
  EXPECT_EQ(duration(2.5), "2.500 s");
  EXPECT_EQ(duration(1e-3), "1.000 ms");
  EXPECT_EQ(duration(4.118e-6), "4.1 us");
  EXPECT_EQ(duration(2e-12), "< 0.1 us");
  EXPECT_EQ(duration(0), "0.0 us");
  EXPECT_EQ(rows_text(1), "1 row");
  EXPECT_EQ(rows_text(2000), "2,000 rows");
}

}  // namespace
}  // namespace moesaic::planner
