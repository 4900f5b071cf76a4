// SPDX-License-Identifier: Apache-2.0
// L0: SwiGLU and its derivative on scalars, and where up and gate stand in a row of 2h columns. The
// exponential is a parameter: kernels pass a fast one (callable on both sides), the oracle the
// library's.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"

namespace moesaic::math {

/// The compiler's own exponential. Not constexpr on every compiler, hence none of the functions
/// over it.
struct LibraryExp {
  MOESAIC_HD float operator()(float x) const { return __builtin_expf(x); }
  MOESAIC_HD double operator()(double x) const { return __builtin_exp(x); }
};

/// σ(x) and 1 − σ(x). Both come from exp(−|x|) ≤ 1, so nothing overflows and neither is the
/// difference of two nearly equal numbers.
template <std::floating_point Real>
struct Sigmoid {
  Real value = 0;
  Real complement = 0;
};

namespace detail {

// |x|, which a GPU's instructions take as an operand.
template <std::floating_point Real>
MOESAIC_HD constexpr Real magnitude(Real x) {
  if constexpr (std::same_as<Real, float>) {
    return __builtin_fabsf(x);
  } else {
    return static_cast<Real>(__builtin_fabs(x));
  }
}

// A rounded division is a function call in a kernel, so `exp` may bring a reciprocal of its own.
template <std::floating_point Real, class Exp>
MOESAIC_HD constexpr Real reciprocal(Real x, const Exp& exp) {
  if constexpr (requires { exp.reciprocal(x); }) {
    return exp.reciprocal(x);
  } else {
    return Real(1) / x;
  }
}

}  // namespace detail

/// `exp(x)` is asked for x ≤ 0 and NaN only, `exp.reciprocal(x)`, if there is one, for 1 ≤ x ≤ 2
/// only.
template <std::floating_point Real, class Exp = LibraryExp>
MOESAIC_HD constexpr Sigmoid<Real> sigmoid(Real x, const Exp& exp = {}) {
  const Real decay = exp(-detail::magnitude(x));
  const Real large = detail::reciprocal(Real(1) + decay, exp);
  const Real small = decay * large;
  return x < 0 ? Sigmoid<Real>{small, large} : Sigmoid<Real>{large, small};
}

/// x · σ(x). Finite for every finite x; NaN for NaN and for −∞.
template <std::floating_point Real, class Exp = LibraryExp>
MOESAIC_HD constexpr Real silu(Real x, const Exp& exp = {}) {
  return x * sigmoid(x, exp).value;
}

/// up · silu(gate).
template <std::floating_point Real, class Exp = LibraryExp>
MOESAIC_HD constexpr Real swiglu(Real up, Real gate, const Exp& exp = {}) {
  return up * silu(gate, exp);
}

template <std::floating_point Real>
struct SwigluGrad {
  Real dup = 0;
  Real dgate = 0;
};

/// Gradients of swiglu(up, gate) for the gradient dh of its result:
/// dup = dh · silu(gate), dgate = dh · up · σ(gate) · (1 + gate · (1 − σ(gate))).
template <std::floating_point Real, class Exp = LibraryExp>
MOESAIC_HD constexpr SwigluGrad<Real> dswiglu(Real up, Real gate, Real dh, const Exp& exp = {}) {
  const Sigmoid<Real> s = sigmoid(gate, exp);
  // The sum vanishes at a gate of −1.28: not σ + silu · (1 − σ), whose second term is rounded.
  const Real slope = s.value * (Real(1) + gate * s.complement);
  return {dh * (gate * s.value), dh * (up * slope)};
}

/// Where the h up columns and the h gate columns stand among 2h.
enum class UpGateLayout : std::uint8_t {
  up_gate,      ///< Columns [0, h) up, [h, 2h) gate.
  gate_up,      ///< Columns [0, h) gate, [h, 2h) up.
  interleaved,  ///< Even columns up, odd columns gate.
};

/// Column of up element j, 0 ≤ j < h.
MOESAIC_HD constexpr std::int64_t up_column(UpGateLayout layout, std::int64_t j, std::int64_t h) {
  if (layout == UpGateLayout::interleaved) return 2 * j;
  return layout == UpGateLayout::up_gate ? j : h + j;
}

/// Column of gate element j, 0 ≤ j < h.
MOESAIC_HD constexpr std::int64_t gate_column(UpGateLayout layout, std::int64_t j, std::int64_t h) {
  if (layout == UpGateLayout::interleaved) return 2 * j + 1;
  return layout == UpGateLayout::up_gate ? h + j : j;
}

/// What column c of 2h holds.
struct UpGateElement {
  bool is_gate = false;
  std::int64_t j = 0;
  bool operator==(const UpGateElement&) const = default;
};

/// The inverse of up_column() and gate_column(), 0 ≤ column < 2h.
MOESAIC_HD constexpr UpGateElement up_gate_element(UpGateLayout layout, std::int64_t column,
                                                   std::int64_t h) {
  if (layout == UpGateLayout::interleaved) return {column % 2 != 0, column / 2};
  const bool second_half = column >= h;
  return {second_half == (layout == UpGateLayout::up_gate), second_half ? column - h : column};
}

}  // namespace moesaic::math
