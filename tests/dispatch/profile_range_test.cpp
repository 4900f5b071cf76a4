// SPDX-License-Identifier: Apache-2.0
// Ranges: on the CPU nothing is marked, and what runs inside is not changed.
#include "moesaic/profile_range.hpp"

#include <gtest/gtest.h>

namespace moesaic {
namespace {

TEST(ProfileRange, MarksNothingOnTheCpu) {
  const ProfileRange outer("outer", Device{});
  const ProfileRange inner("inner", Device{});
  EXPECT_FALSE(outer.marked());
  EXPECT_FALSE(inner.marked());
}

}  // namespace
}  // namespace moesaic
