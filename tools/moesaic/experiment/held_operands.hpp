// SPDX-License-Identifier: Apache-2.0
// Which operands a process still has from the cases before, and which rows of them a case needs
// drawn anew. Arithmetic alone: the workbench draws by it, the estimate of a plan counts by it.
#pragma once

#include <cstdint>

#include "experiment/design.hpp"

namespace moesaic::cli::experiment {

/// Rows of x and w that have to be drawn; 0 where those that are there will do.
struct RowsToDraw {
  std::int64_t x = 0, w = 0;
};

/// Rows of x that are drawn for a case: all of them, or one expert's, which the others repeat.
std::int64_t drawn_x_rows(const Case& one);

/// A row's values depend on seed, width and row alone, so fewer rows of the same width are there
/// when more of them are.
class HeldOperands {
 public:
  /// What is missing for this case; from then on it is there.
  RowsToDraw take(const Case& one);

 private:
  std::int64_t width_ = 0;  ///< Contracted, of x and of w.
  std::int64_t w_rows_ = 0, x_rows_ = 0, x_drawn_ = 0;
  ExpertRows expert_rows_ = ExpertRows::own;
};

}  // namespace moesaic::cli::experiment
