// SPDX-License-Identifier: Apache-2.0
// Largest-remainder apportionment in exact integer arithmetic: the one way in which rows are shared
// out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moesaic::routing {

/// Shares `rows` out in proportion to `weights` (sum 1 to 2^63 - 1); the total is exact, ties of
/// the remainders go to the lowest index.
[[nodiscard]] std::vector<std::int64_t> apportion(std::int64_t rows,
                                                  std::span<const std::int64_t> weights);

}  // namespace moesaic::routing
