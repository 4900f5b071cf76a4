// SPDX-License-Identifier: Apache-2.0
// Sizes of workspaces: products and sums that refuse, naming the argument to blame, instead of
// wrapping. For plan(), so that what execute() computes with the same factors cannot wrap either.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/message.hpp"
#include "math/integer.hpp"
#include "moesaic/workspace.hpp"

namespace moesaic::core {

/// No machine has as much; two of them still fit std::int64_t.
inline constexpr std::int64_t kMostWorkspaceBytes = std::int64_t{1} << 62;

namespace detail {
inline void check_workspace_size(std::string_view argument, std::int64_t size_bytes,
                                 std::initializer_list<std::int64_t> terms, std::string_view sign) {
  if (size_bytes <= kMostWorkspaceBytes) {
    return;
  }
  std::string got;
  for (const std::int64_t term : terms) {
    got.append(got.empty() ? "" : sign).append(std::to_string(term));
  }
  refuse(argument, "a value for which a workspace of at most 2^62 bytes is enough", got + " bytes");
}
}  // namespace detail

/// The product of `factors` (>= 0), rounded up to the workspace alignment.
/// @throws Error{invalid_argument} naming `argument` when it is more than 2^62 bytes.
inline std::int64_t checked_bytes(std::string_view argument,
                                  std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product = factor == 0 ? 0 : math::saturating_mul(product, factor);
  }
  detail::check_workspace_size(argument, product, factors, " * ");
  return math::round_up<std::int64_t>(product, kWorkspaceAlignment);
}

/// The sum of `parts` (>= 0), unchanged. @throws as checked_bytes.
inline std::int64_t checked_total_bytes(std::string_view argument,
                                        std::initializer_list<std::int64_t> parts) {
  std::int64_t total = 0;
  for (const std::int64_t part : parts) {
    total = math::saturating_add(total, part);
  }
  detail::check_workspace_size(argument, total, parts, " + ");
  return total;
}

}  // namespace moesaic::core
