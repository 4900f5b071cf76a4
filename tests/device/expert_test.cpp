// SPDX-License-Identifier: Apache-2.0
// The SwiGLU expert's kernels: the activation against its definition on the host, and the products
// with the activation in their epilogue against product and activation apart, bit for bit. Rows of
// nobody and columns past the last stay as they were.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cuda/launch/activation.hpp"
#include "device/expert_run.hpp"
#include "math/activation.hpp"
#include "moesaic/dtype.hpp"

namespace moesaic::device_tests {
namespace {

class Expert : public ExpertRun {
 public:
  explicit Expert(const ExpertCase& c)
      : ExpertRun(c),
        x(c.rows, c.d),
        w_up_gate(c.experts() * 2 * c.h, c.d),
        w_down(c.experts() * c.d, c.h),
        dy(c.rows, c.d) {
    // Gates with a deviation of 3, so that both tails of the activation are met.
    const auto scale = static_cast<float>(3.0 / std::sqrt(static_cast<double>(c.d)));
    fill_normal(x.memory.bytes(), x.elements(), 1, 1.0F, queue.get());
    fill_normal(dy.memory.bytes(), dy.elements(), 2, 1.0F, queue.get());
    fill_normal(w_up_gate.memory.bytes(), w_up_gate.elements(), 3, scale, queue.get());
    fill_normal(w_down.memory.bytes(), w_down.elements(), 4, scale, queue.get());
    queue.wait();
  }

  [[nodiscard]] std::unique_ptr<const backends::FusedExpert> fused() const {
    return ExpertRun::fused(problem());
  }
  /// U = x W_up_gate^T by the grouped product.
  void up_gate_product(const Matrix& u) const {
    product({.n = 2 * description().h, .k = description().d}, x.view(),
            w_up_gate.weights(description().experts()), u.view());
  }
  void activation(const Matrix& u, const Matrix& h) const {
    cuda::launch::swiglu(
        {u.view(), offs(), {}, h.view(), {}, description().order, device().num_sms}, stream());
  }
  void gradient(const Matrix& u, const Matrix& dh, const TensorView& h, const Matrix& du) const {
    cuda::launch::dswiglu(
        {u.view(), offs(), dh.view(), h, du.view(), description().order, device().num_sms},
        stream());
  }

  Matrix x, w_up_gate, w_down, dy;
};

/// Fused and apart, forward and backward, with what is optional and without.
void expect_same_bits(const ExpertCase& c) {
  const Expert expert(c);
  const auto fused = expert.fused();
  ASSERT_NE(fused, nullptr);
  constexpr std::int64_t kGap = 24;  // between the rows of U and H: nothing may be written there
  const Matrix u(c.rows, 2 * c.h, kGap), h(c.rows, c.h, kGap), dh(c.rows, c.h), du(c.rows, 2 * c.h);
  const Matrix u_fused(c.rows, 2 * c.h, kGap), h_fused(c.rows, c.h, kGap),
      du_fused(c.rows, 2 * c.h);
  for (const Matrix* matrix : {&u, &h, &dh, &du, &u_fused, &h_fused, &du_fused}) {
    matrix->unwritten(expert.queue);
  }
  const ConstTensorView w_up_gate = expert.w_up_gate.weights(c.experts());
  const ConstTensorView w_down = expert.w_down.weights(c.experts());

  expert.up_gate_product(u);
  expert.activation(u, h);
  fused->up_gate({expert.x.view(), w_up_gate, expert.offs(), u_fused.view(), h_fused.view()},
                 expert.workspace(), expert.stream());
  expert.expect_equal(u, u_fused, "U");
  expert.expect_equal(h, h_fused, "H");
  h_fused.unwritten(expert.queue);
  fused->up_gate({expert.x.view(), w_up_gate, expert.offs(), {}, h_fused.view()},
                 expert.workspace(), expert.stream());
  expert.expect_equal(h, h_fused, "H without U");

  expert.product({.pass = Pass::dgrad, .n = c.d, .k = c.h}, expert.dy.view(), w_down, dh.view());
  expert.gradient(u, dh, h.view(), du);
  h_fused.unwritten(expert.queue);
  fused->down_gradient(
      {expert.dy.view(), w_down, expert.offs(), u.view(), du_fused.view(), h_fused.view()},
      expert.workspace(), expert.stream());
  expert.expect_equal(du, du_fused, "dU");
  expert.expect_equal(h, h_fused, "H again");
  du_fused.unwritten(expert.queue);
  fused->down_gradient({expert.dy.view(), w_down, expert.offs(), u.view(), du_fused.view()},
                       expert.workspace(), expert.stream());
  expert.expect_equal(du, du_fused, "dU without H");
}

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

// One CTA has all tiles, one after the other, long and short, whole, halved and of few rows.
TEST_F(SmallExpert, OneSmHasAllTilesInARow) {
  for (const std::int64_t d : {64, 192, 256, 320, 1024}) {
    ExpertCase c;
    c.offs = ends({300, 20, 129, 0, 256, 700, 1});
    c.rows = c.offs.back() + 5;
    c.d = d;
    c.h = 456;
    c.num_sms = 1;
    SCOPED_TRACE("d = " + std::to_string(d));
    expect_same_bits(c);
  }
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
  const auto fused = expert.fused();
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), du(c.rows, 2 * c.h);
  const Matrix u_apart(c.rows, 2 * c.h), h_apart(c.rows, c.h);
  // initcheck does not see what bulk copies write.
  for (const Matrix* matrix : {&u, &h, &du, &u_apart, &h_apart}) matrix->unwritten(expert.queue);
  fused->up_gate({expert.x.view(), expert.w_up_gate.weights(5), expert.offs(), u.view(), h.view()},
                 expert.workspace(), expert.stream());
  expert.up_gate_product(u_apart);
  expert.activation(u_apart, h_apart);
  const std::vector<BFloat16> found = h.read(expert.queue), want = h_apart.read(expert.queue);
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
  const auto fused = expert.fused();
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), u2(c.rows, 2 * c.h), h2(c.rows, c.h);
  const Matrix du(c.rows, 2 * c.h), du2(c.rows, 2 * c.h);
  for (const Matrix* matrix : {&u, &h, &u2, &h2, &du, &du2}) matrix->unwritten(expert.queue);
  const auto run = [&](const Matrix& u_out, const Matrix& h_out, const Matrix& du_out) {
    fused->up_gate(
        {expert.x.view(), expert.w_up_gate.weights(10), expert.offs(), u_out.view(), h_out.view()},
        expert.workspace(), expert.stream());
    fused->down_gradient({expert.dy.view(), expert.w_down.weights(10), expert.offs(), u_out.view(),
                          du_out.view(), h_out.view()},
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

}  // namespace
}  // namespace moesaic::device_tests
