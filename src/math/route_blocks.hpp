// SPDX-License-Identifier: Apache-2.0
// L0: how many blocks of routes are counted and placed side by side.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// Blocks of `size` routes each, the last with the rest; see route_block().
struct RouteBlocks {
  std::int64_t count = 0;
  std::int64_t size = 0;
};

/// Small blocks are placed quickly, one warp each; but every block has a counter for every expert,
/// which have to be cleared and scanned: no more than `kMaxRouteCounters` of them.
inline constexpr std::int64_t kRoutesPerBlock = 256;
inline constexpr std::int64_t kMaxRouteBlocks = 1024;
inline constexpr std::int64_t kMaxRouteCounters = std::int64_t{1} << 20;

/// Blocks that no call with up to `max_routes` routes exceeds.
MOESAIC_HD constexpr std::int64_t max_route_blocks(std::int64_t max_routes,
                                                   std::int32_t num_experts) {
  const std::int64_t most =
      max<std::int64_t>(1, min(kMaxRouteBlocks, kMaxRouteCounters / num_experts));
  return min(most, max<std::int64_t>(1, ceil_div(max_routes, kRoutesPerBlock)));
}

/// At least one block, also for no route; sizes are multiples of 32, the routes of a chunk.
MOESAIC_HD constexpr RouteBlocks route_blocks(std::int64_t num_routes, std::int32_t num_experts) {
  const std::int64_t most = max_route_blocks(num_routes, num_experts);
  const std::int64_t size =
      round_up<std::int64_t>(max<std::int64_t>(1, ceil_div(num_routes, most)), 32);
  return {max<std::int64_t>(1, ceil_div(num_routes, size)), size};
}

}  // namespace moesaic::math
