// SPDX-License-Identifier: Apache-2.0
#include "math/missed_barrier.hpp"

#include <gtest/gtest.h>

#include <set>

namespace moesaic::math {
namespace {

TEST(MissedBarrier, RoundTrips) {
  std::set<std::uint64_t> words = {0};
  for (const std::int32_t rank : {0, 1, 7, 1023, 65'534}) {
    for (const std::uint64_t generation :
         {std::uint64_t{1}, std::uint64_t{1} << 32, (std::uint64_t{1} << 48) - 1}) {
      const MissedBarrier missed{rank, generation};
      EXPECT_TRUE(words.insert(encode_missed_barrier(missed)).second) << "a word means two things";
      EXPECT_EQ(decode_missed_barrier(encode_missed_barrier(missed)), missed);
    }
  }
}

TEST(MissedBarrier, ZeroIsNobody) {
  EXPECT_EQ(encode_missed_barrier({}), 0u);
  EXPECT_FALSE(decode_missed_barrier(0));
  EXPECT_EQ(decode_missed_barrier(0), MissedBarrier{});
}

}  // namespace
}  // namespace moesaic::math
