// SPDX-License-Identifier: Apache-2.0
// See compare.hpp.

#include "check/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace moesaic {

void CheckResult::merge(const CheckResult& other) {
  elements += other.elements;
  mismatches += other.mismatches;
  worst = std::max(worst, other.worst);
  if (!first && other.first) {
    first = other.first;
  }
}

namespace check {

double half_ulp(double value, DType dtype) {
  const int digits = dtype == DType::f32 ? 24 : 8;
  constexpr int kLeastExponent = -126;  // of a normal FP32 or BF16 value
  int exponent = kLeastExponent;
  if (value != 0 && std::isfinite(value)) {
    exponent = std::max(kLeastExponent, std::ilogb(value));
  }
  return std::ldexp(1.0, exponent - digits);  // ulp = 2^(exponent - digits + 1)
}

/// Rounding to nearest gives infinity from half an ulp past the largest finite value on. FP32 and
/// BF16 end at the same power of two, and the error of a bound has that half ulp in it.
constexpr double kOverflow = 0x1p128;

void compare(double got, const Bounded& want, const Place& place, CheckResult& result) {
  ++result.elements;
  double ratio = 0;
  if (!std::isfinite(want.value)) {
    const bool same = std::isnan(want.value) ? std::isnan(got) : got == want.value;
    ratio = same ? 0 : std::numeric_limits<double>::infinity();
  } else if (std::isinf(got) && std::abs(want.value) + want.error >= kOverflow) {
    ratio = std::signbit(got) == std::signbit(want.value)
                ? 0
                : std::numeric_limits<double>::infinity();  // overflow is the right rounding
  } else if (!std::isfinite(got)) {
    ratio = std::numeric_limits<double>::infinity();
  } else {
    const double difference = std::abs(got - want.value);
    ratio = difference == 0 ? 0 : difference / want.error;
  }
  result.worst = std::max(result.worst, ratio);
  if (ratio <= 1) {
    return;
  }
  ++result.mismatches;
  if (!result.first) {
    result.first =
        Mismatch{place.tensor, place.expert, place.row, place.column, got, want.value, want.error};
  }
}

double load_element(const ConstTensorView& view, std::int64_t offset_elems) {
  if (view.dtype == DType::f32) {
    return core::load(static_cast<const float*>(view.data)[offset_elems]);
  }
  return core::load(static_cast<const BFloat16*>(view.data)[offset_elems]);
}

std::vector<std::int64_t> sample(std::int64_t extent, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> indices;
  if (count < 0 || count >= extent) {
    indices.resize(static_cast<std::size_t>(extent));
    for (std::int64_t i = 0; i < extent; ++i) {
      indices[static_cast<std::size_t>(i)] = i;
    }
    return indices;
  }
  std::set<std::int64_t> chosen;
  if (count > 0) {
    chosen.insert(0);
  }
  if (count > 1) {
    chosen.insert(extent - 1);
  }
  std::mt19937_64 random(seed);
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    chosen.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent)));
  }
  indices.assign(chosen.begin(), chosen.end());
  return indices;
}

}  // namespace check
}  // namespace moesaic
