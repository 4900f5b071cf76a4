// SPDX-License-Identifier: Apache-2.0
// One element against its bound, and which elements to look at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/exact.hpp"
#include "moesaic/check.hpp"
#include "moesaic/tensor.hpp"

namespace moesaic::check {

/// The contract's accumulation error: 64 units of FP32 per unit of summed magnitude.
inline constexpr double kAccumulation = 64.0 / 16'777'216.0;

/// Half the distance between neighbours of `dtype` at |value|.
double half_ulp(double value, DType dtype);

/// A value that a computation may miss by `error`.
struct Bounded {
  double value = 0, error = 0;
};

/// A sum accumulated in FP32 and rounded once to `dtype`.
inline Bounded rounded(const core::Sum& sum, DType dtype) {
  const double error = kAccumulation * sum.magnitude;
  return {sum.value, error + half_ulp(std::abs(sum.value) + error, dtype)};
}

/// Where an element stands, for the report.
struct Place {
  const char* tensor;
  std::int64_t expert, row, column;
};

/// Counts one comparison.
void compare(double got, const Bounded& want, const Place& place, CheckResult& result);

double load_element(const ConstTensorView& view, std::int64_t offset_elems);

/// `count` distinct indices below `extent`, sorted, first and last among them; all when count < 0
/// or count >= extent.
std::vector<std::int64_t> sample(std::int64_t extent, std::int64_t count, std::uint64_t seed);

}  // namespace moesaic::check
