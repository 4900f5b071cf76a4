// SPDX-License-Identifier: Apache-2.0
// How many rows a padded batch reserves for each expert.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moesaic {

/// The two capacity rules of the field; both depend on the mean load, never on the counts.
enum class CapacityRule : std::uint8_t {
  ceil_mean,  ///< C = ceil(c * M / E): the report's sweep.
  eight_row,  ///< C = S * 8 * ceil(floor(c * M / (E * S)) / 8), S source ranks: the report's
              ///< Eq. 16.
};

/// "ceil_mean" or "eight_row".
std::string_view name(CapacityRule rule) noexcept;

/// A capacity factor kept as an exact decimal, so that 1.6 * 2.5 is 4 and never 5 by rounding.
struct Capacity {
  CapacityRule rule = CapacityRule::ceil_mean;
  std::int64_t factor_millionths = 1'250'000;
  std::int64_t source_ranks = 1;  ///< S of `eight_row`.

  [[nodiscard]] double factor() const noexcept {
    return static_cast<double>(factor_millionths) / 1e6;
  }
  bool operator==(const Capacity&) const = default;
};

/// Reads "1.25", "1.25:ceil_mean" or "1.25:eight_row:S" (S source ranks).
/// @throws Error{invalid_argument} naming `argument`, with what was expected and what came.
Capacity parse_capacity(std::string_view text, std::string_view argument = "--capacity");

/// "1.25:ceil_mean", "1.25:eight_row:8": what parse_capacity reads back.
std::string to_string(const Capacity& capacity);

/// Rows C reserved per expert for M = `rows` and E = `num_experts`; exact in 128-bit arithmetic.
/// @throws Error{invalid_argument} when rows < 0, num_experts < 1, the factor is not positive or
/// the result exceeds int64.
std::int64_t capacity_rows(const Capacity& capacity, std::int64_t rows, std::int64_t num_experts);

}  // namespace moesaic
