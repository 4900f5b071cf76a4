// SPDX-License-Identifier: Apache-2.0
// See held_operands.hpp.
#include "experiment/held_operands.hpp"

namespace moesaic::cli::experiment {

std::int64_t drawn_x_rows(const Case& one) {
  return one.expert_rows == ExpertRows::repeated ? one.record.counts.front() : one.record.rows();
}

RowsToDraw HeldOperands::take(const Case& one) {
  const planner::ProductShape size = one.product();
  if (size.k != width_) *this = HeldOperands();
  width_ = size.k;
  RowsToDraw missing;
  if (const std::int64_t rows = one.experts() * size.n; rows > w_rows_) missing.w = w_rows_ = rows;
  const std::int64_t rows = one.record.rows(), drawn = drawn_x_rows(one);
  const bool repeats = one.expert_rows == ExpertRows::repeated;
  const bool alike = one.expert_rows == expert_rows_ && (!repeats || drawn == x_drawn_);
  if (!alike || rows > x_rows_) {
    missing.x = x_drawn_ = drawn;
    x_rows_ = rows;
    expert_rows_ = one.expert_rows;
  }
  return missing;
}

}  // namespace moesaic::cli::experiment
