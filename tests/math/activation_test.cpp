// SPDX-License-Identifier: Apache-2.0
#include "math/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace moesaic::math {
namespace {

static_assert(up_column(UpGateLayout::up_gate, 3, 8) == 3 &&
              gate_column(UpGateLayout::up_gate, 3, 8) == 11);
static_assert(up_column(UpGateLayout::gate_up, 3, 8) == 11 &&
              gate_column(UpGateLayout::gate_up, 3, 8) == 3);
static_assert(up_column(UpGateLayout::interleaved, 3, 8) == 6 &&
              gate_column(UpGateLayout::interleaved, 3, 8) == 7);
// The exponential is a parameter, so a constant one makes a constant expression: σ = 1/2.
struct One {
  constexpr double operator()(double) const { return 1.0; }
};
static_assert(swiglu(3.0, 4.0, One{}) == 6.0);
static_assert(dswiglu(3.0, 4.0, 2.0, One{}).dup == 4.0);
static_assert(dswiglu(3.0, 4.0, 2.0, One{}).dgate == 2.0 * 3.0 * 0.5 * (1 + 4.0 * 0.5));

// A reciprocal that comes with the exponential is used, and both get only the arguments that are
// promised.
struct Picky {
  double operator()(double x) const {
    EXPECT_LE(x, 0.0);
    return std::exp(x);
  }
  double reciprocal(double x) const {
    EXPECT_TRUE(x >= 1.0 && x <= 2.0) << x;
    ++calls;
    return 1.0 / x;
  }
  mutable int calls = 0;
};

TEST(Activation, AsksExpAndReciprocalForSafeArgumentsOnly) {
  const Picky picky;
  int expected_calls = 0;
  for (const double gate : {-1e300, -40.0, -1.0, -0.0, 0.0, 1e-300, 3.0, 700.0, 1e300}) {
    EXPECT_EQ(silu(gate, picky), silu(gate));
    EXPECT_EQ(picky.calls, ++expected_calls);
  }
}

TEST(Activation, LayoutsPlaceEveryColumnOnce) {
  for (const auto layout :
       {UpGateLayout::up_gate, UpGateLayout::gate_up, UpGateLayout::interleaved}) {
    for (const std::int64_t h : {1, 2, 5, 64}) {
      std::vector<int> seen(static_cast<std::size_t>(2 * h), 0);
      for (std::int64_t j = 0; j < h; ++j) {
        const std::int64_t up = up_column(layout, j, h);
        const std::int64_t gate = gate_column(layout, j, h);
        ++seen.at(static_cast<std::size_t>(up));
        ++seen.at(static_cast<std::size_t>(gate));
        EXPECT_EQ(up_gate_element(layout, up, h), (UpGateElement{false, j}));
        EXPECT_EQ(up_gate_element(layout, gate, h), (UpGateElement{true, j}));
      }
      for (const int count : seen) ASSERT_EQ(count, 1);
    }
  }
  EXPECT_EQ(up_column(UpGateLayout::gate_up, 1, std::int64_t{1} << 33),
            (std::int64_t{1} << 33) + 1);
}

TEST(Activation, KnownValues) {
  EXPECT_DOUBLE_EQ(silu(0.0), 0.0);
  // x / (1 + e⁻ˣ) to 16 digits, from a table of e⁻¹ = 0.36787944117144233.
  EXPECT_DOUBLE_EQ(silu(1.0), 1.0 / 1.36787944117144233);
  EXPECT_DOUBLE_EQ(silu(-1.0), -0.36787944117144233 / 1.36787944117144233);
  EXPECT_DOUBLE_EQ(swiglu(-2.5, 1.0), -2.5 / 1.36787944117144233);
  EXPECT_FLOAT_EQ(silu(1.0f), 0.73105857863f);
}

TEST(Activation, AgreesWithTheTextbookFormWhereThatIsSafe) {
  for (double x = -30; x <= 30; x += 0.03125) {
    const long double s = 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
    const auto exact = static_cast<double>(x * s);
    ASSERT_NEAR(silu(x), exact, 4e-16 * std::abs(exact));
    const double in_float = silu(static_cast<float>(x));
    ASSERT_NEAR(in_float, exact, 6e-7 * std::abs(exact)) << x;
  }
}

TEST(Activation, DerivativesAgreeWithFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (double gate = -12; gate <= 12; gate += 0.37) {
    for (const double up : {-3.0, 0.25, 7.0}) {
      const auto grad = dswiglu(up, gate, 1.5);
      const double dup = 1.5 * (swiglu(up + kStep, gate) - swiglu(up - kStep, gate)) / (2 * kStep);
      const double dgate =
          1.5 * (swiglu(up, gate + kStep) - swiglu(up, gate - kStep)) / (2 * kStep);
      ASSERT_NEAR(grad.dup, dup, 1e-8 * (1 + std::abs(up))) << gate;
      ASSERT_NEAR(grad.dgate, dgate, 1e-7 * (1 + std::abs(up))) << gate;
    }
  }
}

template <class Real>
void expect_safe_for_large_gates() {
  for (const Real gate :
       {Real(50), Real(89), Real(104), Real(800), Real(1e30), std::numeric_limits<Real>::max()}) {
    EXPECT_EQ(silu(gate), gate);
    // e^−gate has underflowed or nearly so; −0 and the last subnormals are both right, Inf and NaN
    // not.
    EXPECT_LE(silu(-gate), Real(0));
    EXPECT_GE(silu(-gate), Real(-1e-18));
    const auto high = dswiglu(Real(2), gate, Real(3));
    EXPECT_EQ(high.dup, 3 * gate);
    EXPECT_NEAR(static_cast<double>(high.dgate), 6.0, 1e-15);
    const auto low = dswiglu(Real(2), -gate, Real(3));
    EXPECT_NEAR(static_cast<double>(low.dup), 0.0, 1e-18);
    EXPECT_NEAR(static_cast<double>(low.dgate), 0.0, 1e-18);
  }
  EXPECT_TRUE(std::isnan(silu(std::numeric_limits<Real>::quiet_NaN())));
  EXPECT_EQ(silu(std::numeric_limits<Real>::infinity()), std::numeric_limits<Real>::infinity());
}

TEST(Activation, LargeGatesNeitherOverflowNorBecomeNan) {
  expect_safe_for_large_gates<float>();
  expect_safe_for_large_gates<double>();
}

TEST(Activation, SmallTailsKeepTheirRelativePrecision) {
  // The textbook x / (1 + e⁻ˣ) overflows to −0 here; the true value is a normal float.
  const auto exact = static_cast<float>(-85.0L * std::exp(-85.0L));
  EXPECT_NEAR(silu(-85.0f) / exact, 1.0f, 1e-5f);
  // 1 − σ(20) is 2.06e−9: below half an ulp of 1 in float, but it multiplies gate in the
  // derivative.
  const auto sigma = sigmoid(20.0f);
  EXPECT_NEAR(sigma.complement / static_cast<float>(std::exp(-20.0L) / (1 + std::exp(-20.0L))),
              1.0f, 1e-6f);
}

}  // namespace
}  // namespace moesaic::math
