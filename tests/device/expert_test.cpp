// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert's kernels: the activation against its definition on the host, and the products
// with the activation in their launch against product and activation apart, bit for bit.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/fused_case.hpp"
#include "math/activation.hpp"
#include "moesaic/dtype.hpp"

namespace moesaic::device_tests {
namespace {

using Parameter = std::tuple<UpGateOrder, std::int64_t, std::vector<std::int32_t>>;

class FusedExpert : public OnDevice, public ::testing::WithParamInterface<Parameter> {};

TEST_P(FusedExpert, HasTheBitsOfProductAndActivation) {
  const auto& [order, h, counts] = GetParam();
  for (const std::int64_t d : {64, 200, 512, 1024}) {
    ExpertCase c;
    c.offs = ends(counts);
    c.rows = c.offs.back() + 37;
    c.d = d;
    c.h = h;
    c.order = order;
    SCOPED_TRACE("d = " + std::to_string(d));
    expect_same_bits(c);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , FusedExpert,
    ::testing::Combine(
        ::testing::Values(UpGateOrder::up_gate, UpGateOrder::gate_up, UpGateOrder::interleaved),
        // Less than a block, a block, a part of one, parts of halves and of tiles of both products.
        ::testing::Values<std::int64_t>(8, 64, 72, 200, 256, 456, 1408),
        ::testing::Values(std::vector<std::int32_t>{0, 0, 0, 0}, std::vector<std::int32_t>{1, 0, 3},
                          std::vector<std::int32_t>{5, 17, 64, 33},
                          std::vector<std::int32_t>{65, 127, 128, 129, 0, 193, 300, 16},
                          std::vector<std::int32_t>{3, 1, 2000, 2, 0, 1, 3, 38})));

class SmallExpert : public OnDevice {};

void expect_all_tiles_in_a_row(int num_sms, std::int64_t d) {
  ExpertCase c;
  c.offs = ends({300, 20, 129, 0, 256, 700, 1, 66});
  c.rows = c.offs.back() + 5;
  c.d = d;
  c.h = 456;
  c.num_sms = num_sms;
  SCOPED_TRACE(std::to_string(num_sms) + " SMs, d = " + std::to_string(d));
  expect_same_bits(c);
}

// One CTA has all tiles, one after the other, long and short, whole, halved and of few rows.
TEST_F(SmallExpert, OneSmHasAllTilesInARow) {
  for (const std::int64_t d : {64, 192, 256, 320, 1024}) expect_all_tiles_in_a_row(1, d);
}

// So has one pair; of three SMs it leaves one idle.
TEST_F(SmallExpert, OnePairHasAllTilesInARow) {
  for (const std::int64_t d : {64, 192, 320}) expect_all_tiles_in_a_row(2, d);
  expect_all_tiles_in_a_row(3, 256);
}

// Segments that overlap, and ends past the buffer: rows that one expert alone claims are as they
// would be apart, and the device has no error.
TEST_F(SmallExpert, WrongOffsetsAreContained) {
  ExpertCase c;
  c.rows = 400;
  c.d = 256;
  c.h = 200;
  c.offs = {100, 50, 300, 100'000, -7};
  const Expert expert(c);
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), du(c.rows, 2 * c.h);
  const Matrix u_apart(c.rows, 2 * c.h), h_apart(c.rows, c.h);
  // initcheck does not see what bulk copies write.
  for (const Matrix* matrix : {&u_apart, &h_apart}) matrix->unwritten(expert.queue);
  expert.up_gate_product(u_apart);
  expert.activation(u_apart, h_apart);
  const std::vector<BFloat16> want = h_apart.read(expert.queue);
  for (const std::string& kernel : expert.kernels()) {
    SCOPED_TRACE(kernel);
    for (const Matrix* matrix : {&u, &h, &du}) matrix->unwritten(expert.queue);
    const auto fused = expert.fused(kernel);
    fused->up_gate(
        {expert.x.view(), expert.w_up_gate.weights(5), expert.offs(), u.view(), h.view()},
        expert.workspace(), expert.stream());
    const std::vector<BFloat16> found = h.read(expert.queue);
    for (const auto& [begin, end] : {std::pair{0, 50}, {100, 300}}) {  // of one expert each
      EXPECT_TRUE(std::equal(found.begin() + begin * h.stride, found.begin() + end * h.stride,
                             want.begin() + begin * h.stride))
          << "rows from " << begin;
    }
    fused->down_gradient(
        {expert.dy.view(), expert.w_down.weights(5), expert.offs(), u.view(), du.view(), h.view()},
        expert.workspace(), expert.stream());
    expert.queue.wait();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

// Every BF16 gate, infinities and NaN among them, against the definition in double.
TEST_F(SmallExpert, TheActivationIsRightForEveryGate) {
  ExpertCase c;
  c.rows = 256;
  c.d = 8;
  c.h = 256;
  c.offs = {256};
  const Expert expert(c);
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), dh(c.rows, c.h), du(c.rows, 2 * c.h);
  std::vector<BFloat16> values(static_cast<std::size_t>(u.elements()));
  std::vector<BFloat16> slopes(static_cast<std::size_t>(dh.elements()));
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t j = 0; j < c.h; ++j) {
      const auto gate = BFloat16::from_bits(static_cast<std::uint16_t>(row * 256 + j));
      values[static_cast<std::size_t>(row * u.stride + j)] = BFloat16(1.5F);
      values[static_cast<std::size_t>(row * u.stride + c.h + j)] = gate;
      slopes[static_cast<std::size_t>(row * dh.stride + j)] = BFloat16(-0.75F);
    }
  }
  check(cudaMemcpy(u.memory.bytes(), values.data(), values.size() * 2, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  check(cudaMemcpy(dh.memory.bytes(), slopes.data(), slopes.size() * 2, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  expert.gradient(u, dh, h.view(), du);
  const std::vector<BFloat16> h_found = h.read(expert.queue), du_found = du.read(expert.queue);
  const auto expect = [](double exact, BFloat16 found, double gate, const char* what) {
    const auto got = static_cast<double>(static_cast<float>(found));
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(got)) << what << " of gate " << gate << ": " << got;
    } else if (!std::isfinite(exact) || std::abs(exact) > 3.38e38) {
      EXPECT_GE(std::abs(got), 3.38e38) << what << " of gate " << gate;
    } else {
      EXPECT_NEAR(got, exact, allowed(exact)) << what << " of gate " << gate;
    }
  };
  for (std::size_t i = 0; i < h_found.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(c.h),
                      j = i % static_cast<std::size_t>(c.h);
    const std::size_t up_at = row * static_cast<std::size_t>(u.stride) + j;
    const std::size_t gate_at = up_at + static_cast<std::size_t>(c.h);
    const auto gate = static_cast<double>(static_cast<float>(values[gate_at]));
    const math::SwigluGrad<double> grad = math::dswiglu(1.5, gate, -0.75);
    expect(math::swiglu(1.5, gate), h_found[i], gate, "H");
    expect(grad.dup, du_found[up_at], gate, "dup");
    expect(grad.dgate, du_found[gate_at], gate, "dgate");
    if (HasFailure()) break;
  }
}

/// Too many launches for the tools of compute-sanitizer.
class ExpertOverTime : public SmallExpert {};

// The same launch twice gives the same bits.
TEST_F(ExpertOverTime, BitsRepeat) {
  ExpertCase c;
  c.offs = ends({33, 500, 0, 7, 128, 64, 900, 1, 2, 3});
  c.rows = c.offs.back();
  c.d = 512;
  c.h = 456;
  const Expert expert(c);
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), u2(c.rows, 2 * c.h), h2(c.rows, c.h);
  const Matrix du(c.rows, 2 * c.h), du2(c.rows, 2 * c.h);
  for (const std::string& kernel : expert.kernels()) {
    SCOPED_TRACE(kernel);
    const auto fused = expert.fused(kernel);
    for (const Matrix* matrix : {&u, &h, &u2, &h2, &du, &du2}) matrix->unwritten(expert.queue);
    const auto run = [&](const Matrix& u_out, const Matrix& h_out, const Matrix& du_out) {
      fused->up_gate({expert.x.view(), expert.w_up_gate.weights(10), expert.offs(), u_out.view(),
                      h_out.view()},
                     expert.workspace(), expert.stream());
      fused->down_gradient({expert.dy.view(), expert.w_down.weights(10), expert.offs(),
                            u_out.view(), du_out.view(), h_out.view()},
                           expert.workspace(), expert.stream());
    };
    run(u, h, du);
    for (int repeat = 0; repeat < 200 && !HasFailure(); ++repeat) {
      run(u2, h2, du2);
      expert.expect_equal(u, u2, "U");
      expert.expect_equal(h, h2, "H");
      expert.expect_equal(du, du2, "dU");
    }
  }
}

}  // namespace
}  // namespace moesaic::device_tests
