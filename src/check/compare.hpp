// SPDX-License-Identifier: Apache-2.0
// One element against its bound, and which elements to look at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/exact.hpp"
#include "core/parallel.hpp"
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

/// Seed of an expert's first sample; its further samples take the numbers behind it.
constexpr std::uint64_t expert_seed(const CheckOptions& options, std::int64_t expert) {
  return options.seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(expert);
}

/// Runs body(expert, result) for every expert, experts side by side, and merges the results in
/// their order.
template <class Body>
CheckResult check_experts(std::int64_t num_experts, const Body& body) {
  std::vector<CheckResult> results(static_cast<std::size_t>(num_experts));
  core::parallel_for(num_experts, 0, [&](std::int64_t expert) {
    body(expert, results[static_cast<std::size_t>(expert)]);
  });
  CheckResult all;
  for (const CheckResult& result : results) {
    all.merge(result);
  }
  return all;
}

}  // namespace moesaic::check
