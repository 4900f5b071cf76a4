// SPDX-License-Identifier: Apache-2.0
// An expert whose rows lie in order, and its products with the activation in their launch against
// product and activation apart, bit for bit. Rows of nobody and columns past the last stay as they
// were.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/launch/activation.hpp"
#include "device/expert_run.hpp"

namespace moesaic::device_tests {

inline constexpr const char* kSingleExpert = "cuda/sm90/bf16_swiglu_128x256_k";
inline constexpr const char* kPairExpert = "cuda/sm90/bf16_swiglu_2x128x256_k";

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

  [[nodiscard]] std::unique_ptr<const backends::FusedExpert> fused(
      const std::string& implementation) const {
    return ExpertRun::fused(problem(), implementation);
  }
  /// Kernels of up and gate with what is like them: of one CTA at a time and, on two SMs or more,
  /// of pairs.
  [[nodiscard]] std::vector<std::string> kernels() const {
    std::vector<std::string> names = {kSingleExpert};
    if (device().num_sms >= 2) names.emplace_back(kPairExpert);
    return names;
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

/// Fused and apart, forward and backward, with what is optional and without, by every kernel.
inline void expect_same_bits(const ExpertCase& c) {
  const Expert expert(c);
  constexpr std::int64_t kGap = 24;  // between the rows of U and H: nothing may be written there
  const Matrix u(c.rows, 2 * c.h, kGap), h(c.rows, c.h, kGap), dh(c.rows, c.h), du(c.rows, 2 * c.h);
  const Matrix u_fused(c.rows, 2 * c.h, kGap), h_fused(c.rows, c.h, kGap),
      du_fused(c.rows, 2 * c.h);
  for (const Matrix* matrix : {&u, &h, &dh, &du}) matrix->unwritten(expert.queue);
  const ConstTensorView w_up_gate = expert.w_up_gate.weights(c.experts());
  const ConstTensorView w_down = expert.w_down.weights(c.experts());
  expert.up_gate_product(u);
  expert.activation(u, h);
  expert.product({.pass = Pass::dgrad, .n = c.d, .k = c.h}, expert.dy.view(), w_down, dh.view());
  expert.gradient(u, dh, h.view(), du);
  for (const std::string& kernel : expert.kernels()) {
    SCOPED_TRACE(kernel);
    const auto fused = expert.fused(kernel);
    ASSERT_NE(fused, nullptr);
    EXPECT_EQ(fused->name(), kernel);
    for (const Matrix* matrix : {&u_fused, &h_fused, &du_fused}) matrix->unwritten(expert.queue);
    fused->up_gate({expert.x.view(), w_up_gate, expert.offs(), u_fused.view(), h_fused.view()},
                   expert.workspace(), expert.stream());
    expert.expect_equal(u, u_fused, "U");
    expert.expect_equal(h, h_fused, "H");
    h_fused.unwritten(expert.queue);
    fused->up_gate({expert.x.view(), w_up_gate, expert.offs(), {}, h_fused.view()},
                   expert.workspace(), expert.stream());
    expert.expect_equal(h, h_fused, "H without U");

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
}

}  // namespace moesaic::device_tests
