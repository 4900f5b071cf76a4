// SPDX-License-Identifier: Apache-2.0
// What every entry point checks of a histogram, and sums that refuse instead of wrapping.
#pragma once

#include <cstdint>
#include <string_view>

#include "moesaic/planner.hpp"

namespace moesaic::planner {

/// a + b and a * b of non-negative numbers; an Error naming `what` when the result passes int64.
std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what);
std::int64_t checked_mul(std::int64_t a, std::int64_t b, std::string_view what);

/// U. @throws Error when there is no expert, a count is negative, or U passes int64.
std::int64_t checked_rows(Counts counts);

/// @throws Error naming `what` when value < 1.
void require_positive(std::int64_t value, std::string_view what);

}  // namespace moesaic::planner
