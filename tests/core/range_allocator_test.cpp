// SPDX-License-Identifier: Apache-2.0
#include "core/range_allocator.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace moesaic::core {
namespace {

TEST(RangeAllocator, RangesAreApartAlignedAndComeBack) {
  constexpr std::size_t kSize = 1 << 16, kAlignment = 256;
  RangeAllocator ranges(kSize, kAlignment);
  std::mt19937 random(3);
  std::vector<int> owner(kSize, -1);
  struct Range {
    std::size_t offset, size;
  };
  std::vector<Range> held;
  int refused = 0;
  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0 || held.empty()) {
      const std::size_t size = 1 + random() % 5000;
      const auto offset = ranges.allocate(size);
      if (!offset) {
        EXPECT_LT(ranges.largest_free_bytes(), size);
        ++refused;
        continue;
      }
      EXPECT_EQ(*offset % kAlignment, 0U);
      ASSERT_LE(*offset + size, kSize);
      for (std::size_t i = *offset; i < *offset + size; ++i) {
        ASSERT_EQ(owner[i], -1);
        owner[i] = step;
      }
      held.push_back({*offset, size});
    } else {
      const std::size_t chosen = random() % held.size();
      const Range range = held[chosen];
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(chosen));
      std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(range.offset), range.size, -1);
      ranges.release(range.offset);
    }
  }
  EXPECT_GT(refused, 0);
  for (const Range& range : held) ranges.release(range.offset);
  EXPECT_EQ(ranges.used_bytes(), 0U);
  EXPECT_EQ(ranges.largest_free_bytes(), kSize);  // all neighbours have merged
}

TEST(RangeAllocator, RefusesWhatDoesNotFit) {
  RangeAllocator ranges(512, 256);
  EXPECT_FALSE(ranges.allocate(513));
  EXPECT_FALSE(ranges.allocate(static_cast<std::size_t>(-1)));
  EXPECT_EQ(ranges.allocate(257), 0U);
  EXPECT_FALSE(ranges.allocate(1));
  ranges.release(256);  // not the begin of a range
  EXPECT_FALSE(ranges.allocate(1));
  ranges.release(0);
  EXPECT_EQ(ranges.allocate(512), 0U);
}

}  // namespace
}  // namespace moesaic::core
