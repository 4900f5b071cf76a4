// SPDX-License-Identifier: Apache-2.0
// A span whose operator[] throws outside its bounds: what the math functions read instead of a raw
// pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace moesaic::math {

template <class T>
class CheckedSpan {
 public:
  constexpr CheckedSpan(std::span<T> values)
      : values_(values) {}  // NOLINT(google-explicit-constructor)

  constexpr T& operator[](std::int64_t i) const {
    if (i < 0 || i >= static_cast<std::int64_t>(values_.size())) {
      throw std::out_of_range("index " + std::to_string(i) + " of " +
                              std::to_string(values_.size()));
    }
    return values_[static_cast<std::size_t>(i)];
  }

 private:
  std::span<T> values_;
};

template <class Vector>
CheckedSpan(const Vector&) -> CheckedSpan<const typename Vector::value_type>;
template <class Vector>
CheckedSpan(Vector&) -> CheckedSpan<typename Vector::value_type>;

}  // namespace moesaic::math
