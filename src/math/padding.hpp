// SPDX-License-Identifier: Apache-2.0
// L0: rows that rounding adds: to a tile (tail padding) and to a common capacity per expert.
// Integers only, so that a capacity never depends on how 1.25 · M was rounded. Fractions and
// ledgers are the planner's.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// Rows that tiles of `tile` rows execute for an expert of `rows` rows; 0 stays 0.
MOESAIC_HD constexpr std::int64_t padded_rows(std::int64_t rows, std::int64_t tile) {
  return round_up(rows, tile);
}

/// Of these, the rows that are padding.
MOESAIC_HD constexpr std::int64_t tail_padding_rows(std::int64_t rows, std::int64_t tile) {
  return padded_rows(rows, tile) - rows;
}

/// Capacity factors are counted in millionths: 1.25 is 1'250'000.
inline constexpr std::int64_t kMillion = 1'000'000;

/// `ceil_mean`: C = ⌈c · M / E⌉. rows = M ≥ 0, num_experts = E ≥ 0, factor ≥ 0; 0 for E = 0.
/// Source: capacity sweep of the report (its footnote to Eq. 16).
MOESAIC_HD constexpr std::int64_t ceil_mean_capacity(std::int64_t factor_millionths,
                                                     std::int64_t rows, std::int64_t num_experts) {
  if (num_experts == 0) return 0;
  return mul_div_ceil(factor_millionths, rows, saturating_mul(kMillion, num_experts));
}

/// `eight_row`: C = S · 8 · ⌈⌊c · mean / S⌋ / 8⌉ with mean = M / E not rounded and S source ranks,
/// that is ⌊c · M / (E · S)⌋ exactly. S ≥ 1; 0 for E = 0. Source: Eq. 16 of the report.
MOESAIC_HD constexpr std::int64_t eight_row_capacity(std::int64_t factor_millionths,
                                                     std::int64_t rows, std::int64_t num_experts,
                                                     std::int64_t source_ranks) {
  if (num_experts == 0) return 0;
  const std::int64_t divisor = saturating_mul(saturating_mul(kMillion, num_experts), source_ranks);
  const std::int64_t share = mul_div_floor(factor_millionths, rows, divisor);
  return saturating_mul(source_ranks, saturating_mul(8, ceil_div<std::int64_t>(share, 8)));
}

}  // namespace moesaic::math
