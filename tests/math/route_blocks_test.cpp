// SPDX-License-Identifier: Apache-2.0
#include "math/route_blocks.hpp"

#include <gtest/gtest.h>

#include "math/row_route.hpp"

namespace moesaic::math {
namespace {

constexpr std::int64_t kRoutes[] = {0,   1,    31,     32,        255,     256,
                                    257, 8192, 65'536, 1'000'003, 1 << 24, kMaxOf<std::int32_t>};
constexpr std::int32_t kExperts[] = {1, 8, 64, 1000, 4096, 65'536};

TEST(RouteBlocks, CoverAllRoutesInChunks) {
  for (const std::int64_t routes : kRoutes) {
    for (const std::int32_t experts : kExperts) {
      const RouteBlocks blocks = route_blocks(routes, experts);
      ASSERT_GE(blocks.count, 1);
      EXPECT_GE(blocks.size, 32);
      EXPECT_EQ(blocks.size % 32, 0);
      EXPECT_GE(blocks.count * blocks.size, routes);
      if (blocks.count > 1) {
        EXPECT_LT((blocks.count - 1) * blocks.size, routes) << "the last is empty";
      }
      EXPECT_EQ(route_block(blocks.count - 1, blocks.size, routes).end, routes);
    }
  }
}

TEST(RouteBlocks, NoCallExceedsWhatThePlanReserves) {
  for (const std::int32_t experts : kExperts) {
    for (const std::int64_t most : kRoutes) {
      const std::int64_t reserved = max_route_blocks(most, experts);
      EXPECT_LE(reserved * experts, max<std::int64_t>(kMaxRouteCounters, experts));
      EXPECT_LE(reserved, kMaxRouteBlocks);
      for (const std::int64_t routes : kRoutes) {
        if (routes > most) continue;
        EXPECT_LE(route_blocks(routes, experts).count, reserved) << routes << " of " << most;
      }
      for (std::int64_t routes = 0; routes <= min<std::int64_t>(most, 3000); ++routes) {
        ASSERT_LE(route_blocks(routes, experts).count, reserved) << routes << " of " << most;
      }
    }
  }
}

TEST(RouteBlocks, SmallBlocksWhereCountersAreFew) {
  EXPECT_EQ(route_blocks(65'536, 64).size, kRoutesPerBlock);
  EXPECT_EQ(route_blocks(65'536, 64).count, 256);
}

}  // namespace
}  // namespace moesaic::math
