// SPDX-License-Identifier: Apache-2.0
// The expert MLP in double precision with error bounds carried along: what one rounding of U, H, dH
// and dU each may do to the results. First order plus the product terms, so that the bounds are
// upper bounds.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "check/compare.hpp"
#include "core/up_gate.hpp"
#include "math/activation.hpp"
#include "math/row_gather.hpp"

namespace moesaic::check {

/// Error of evaluating the activation itself in FP32.
inline constexpr double kActivation = 16.0 / 16'777'216.0;
/// |silu''| <= 0.5 everywhere, |silu'| changes by at most that much per unit of gate.
inline constexpr double kSlopeChange = 0.5;

inline double widest(const Bounded& x) { return std::abs(x.value) + x.error; }

inline Bounded product(const Bounded& a, const Bounded& b) {
  const double value = a.value * b.value;
  return {value, widest(a) * widest(b) - std::abs(value)};
}

inline Bounded round_to(const Bounded& x, DType dtype) {
  const double error = x.error + kActivation * std::abs(x.value);
  return {x.value, error + half_ulp(std::abs(x.value) + error, dtype)};
}

inline Bounded silu(const Bounded& gate) {
  const auto s = math::sigmoid(gate.value);
  const double slope = s.value * (1 + gate.value * s.complement);
  return {gate.value * s.value,
          std::abs(slope) * gate.error + kSlopeChange * gate.error * gate.error};
}

inline Bounded silu_slope(const Bounded& gate) {
  const auto s = math::sigmoid(gate.value);
  return {s.value * (1 + gate.value * s.complement), kSlopeChange * gate.error};
}

/// `x`, itself an FP32 number, times the weight of its row.
inline Bounded scaled(const Bounded& x, double weight, DType dtype) {
  const double value = weight * x.value;
  double error = std::abs(weight) * x.error;
  error += half_ulp(std::abs(value) + error, DType::f32);
  return {value, error + half_ulp(std::abs(value) + error, dtype)};
}

/// H times the weight of its row, rounded once.
inline Bounded swiglu(const Bounded& up, const Bounded& gate, double weight, DType dtype) {
  return round_to(product({weight, 0}, product(up, silu(gate))), dtype);
}

/// What a row's weight gets of one element: dh * h, in FP32.
inline Bounded weight_term(const Bounded& up, const Bounded& gate, const Bounded& dh) {
  return round_to(product(dh, product(up, silu(gate))), DType::f32);
}

struct DSwiglu {
  Bounded dup, dgate;
};
inline DSwiglu dswiglu(const Bounded& up, const Bounded& gate, const Bounded& dh, DType dtype) {
  return {round_to(product(dh, silu(gate)), dtype),
          round_to(product(product(dh, up), silu_slope(gate)), dtype)};
}

/// A sum whose left factors are themselves bounded.
struct BoundedSum {
  core::Sum sum;
  double carried = 0;

  void add(const Bounded& factor, double exact) {
    sum.add(factor.value * exact);
    carried += factor.error * std::abs(exact);
  }
  [[nodiscard]] Bounded rounded_to(DType dtype) const {
    const double error = carried + kAccumulation * (sum.magnitude + carried);
    return {sum.value, error + half_ulp(std::abs(sum.value) + error, dtype)};
  }
};

/// The weight of a row; 1 where there are none.
inline double weight_of(const ConstTensorView& row_weights, std::int64_t row) {
  return row_weights.data == nullptr ? 1 : load_element(row_weights, row);
}

/// The layer's rows: x itself, or rows of it as x_rows says; −1 is a row of zeros.
struct LayerRows {
  const ConstTensorView& x;
  const ConstTensorView& x_rows;

  [[nodiscard]] std::int64_t of(std::int64_t row) const {
    if (x_rows.data == nullptr) {
      return row;
    }
    return math::gathered_row(static_cast<const std::int32_t*>(x_rows.data)[row],
                              static_cast<std::int32_t>(x.shape[0]));
  }
};

/// Reads one element of a matrix view as double.
inline double element(const ConstTensorView& view, std::int64_t row, std::int64_t column) {
  return load_element(view, row * view.stride[0] + column);
}

/// sum_i a[row][i] * w[expert][line][i], w [E, lines, columns].
inline core::Sum row_dot(const ConstTensorView& a, std::int64_t row, const ConstTensorView& w,
                         std::int64_t expert, std::int64_t line) {
  core::Sum sum;
  const std::int64_t left = row * a.stride[0];
  const std::int64_t right = expert * w.stride[0] + line * w.stride[1];
  for (std::int64_t i = 0; i < w.shape[2]; ++i) {
    sum.add(load_element(a, left + i) * load_element(w, right + i));
  }
  return sum;
}

/// The same of a row of the layer.
inline core::Sum row_dot(const LayerRows& rows, std::int64_t row, const ConstTensorView& w,
                         std::int64_t expert, std::int64_t line) {
  const std::int64_t at = rows.of(row);
  return at < 0 ? core::Sum{} : row_dot(rows.x, at, w, expert, line);
}
inline double element(const LayerRows& rows, std::int64_t row, std::int64_t column) {
  const std::int64_t at = rows.of(row);
  return at < 0 ? 0 : element(rows.x, at, column);
}

/// sum_i a[row][i] * w[expert][i][column].
inline core::Sum column_dot(const ConstTensorView& a, std::int64_t row, const ConstTensorView& w,
                            std::int64_t expert, std::int64_t column) {
  core::Sum sum;
  const std::int64_t left = row * a.stride[0];
  const std::int64_t right = expert * w.stride[0] + column;
  for (std::int64_t i = 0; i < w.shape[1]; ++i) {
    sum.add(load_element(a, left + i) * load_element(w, right + i * w.stride[1]));
  }
  return sum;
}

}  // namespace moesaic::check
