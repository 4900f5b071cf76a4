// SPDX-License-Identifier: Apache-2.0
// Checks of a histogram; no metric is worked out here.
#include "planner/counts.hpp"

#include <limits>
#include <string>

#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse_overflow(std::string_view what) {
  refuse(std::string(what) + ": expected at most 2^63 - 1, got a larger number");
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what) {
  if (a > kMax - b) refuse_overflow(what);
  return a + b;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b, std::string_view what) {
  if (a != 0 && b > kMax / a) refuse_overflow(what);
  return a * b;
}

std::int64_t checked_rows(Counts counts) {
  if (counts.empty()) refuse("counts: expected at least one expert, got none");
  std::int64_t rows = 0;
  for (std::size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] < 0) {
      refuse("counts: expected rows >= 0, got " + std::to_string(counts[expert]) + " for expert " +
             std::to_string(expert));
    }
    rows = checked_add(rows, counts[expert], "counts (--rows): sum of the rows");
  }
  return rows;
}

void require_positive(std::int64_t value, std::string_view what) {
  if (value < 1) {
    refuse(std::string(what) + ": expected at least 1, got " + std::to_string(value));
  }
}

}  // namespace moesaic::planner
