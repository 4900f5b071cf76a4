// SPDX-License-Identifier: Apache-2.0
// Rows of x that lie anywhere, as the tests of the kernels that take them there have them. Rows
// that nobody is, gaps between rows and what lies behind the last segment are NaN; indices are in
// no order, repeated, and outside of x.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cuda/launch/activation.hpp"
#include "device/expert_run.hpp"
#include "moesaic/dtype.hpp"

namespace moesaic::device_tests {

struct GatherCase : ExpertCase {
  std::int64_t tokens = 0;  ///< T; the last one is nobody's.
  std::int64_t x_gap = 24;
};

inline GatherCase make_case(const std::vector<std::int32_t>& counts, std::int64_t d,
                            std::int64_t h) {
  GatherCase c;
  c.offs = ends(counts);
  c.rows = c.offs.back() + 37;
  c.tokens = std::max<std::int64_t>(c.offs.back() / 2, 3);
  c.d = d;
  c.h = h;
  return c;
}

/// Indices in no order, most of them several times, every eleventh outside; the tail's are wild.
inline std::vector<std::int32_t> some_indices(const GatherCase& c) {
  constexpr std::int32_t kWild[] = {-1, std::numeric_limits<std::int32_t>::min(),
                                    std::numeric_limits<std::int32_t>::max()};
  std::mt19937_64 random(static_cast<std::uint64_t>(c.rows * 31 + c.d));
  std::vector<std::int32_t> indices(static_cast<std::size_t>(c.rows));
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const bool outside = row >= c.routed() || row % 11 == 5;
    const std::uint64_t draw = random();
    indices[static_cast<std::size_t>(row)] =
        !outside        ? static_cast<std::int32_t>(draw % static_cast<std::uint64_t>(c.tokens - 1))
        : draw % 4 == 3 ? static_cast<std::int32_t>(c.tokens)
                        : kWild[draw % 4];
  }
  return indices;
}

/// BF16 or FP32 [E, 2h, d].
struct WeightGradient {
  WeightGradient(std::int64_t experts, std::int64_t lines, std::int64_t columns, DType type)
      : dtype(type),
        shape{experts, lines, columns},
        memory(experts * lines * columns * size_bytes(type)) {}
  [[nodiscard]] std::int64_t elements() const { return shape[0] * shape[1] * shape[2]; }
  [[nodiscard]] std::int64_t bytes() const { return elements() * size_bytes(dtype); }
  [[nodiscard]] TensorView view() const {
    return {memory.as<void>(), dtype, kDevice, 3, shape, {shape[1] * shape[2], shape[2], 1}};
  }
  DType dtype;
  std::array<std::int64_t, 3> shape;
  DeviceMemory memory;
};

class GatherRun : public ExpertRun {
 public:
  explicit GatherRun(const GatherCase& c) : GatherRun(c, some_indices(c)) {}
  GatherRun(const GatherCase& c, const std::vector<std::int32_t>& indices)
      : ExpertRun(c),
        x_rows_memory_(c.rows * 4),
        row_weights_memory_(c.rows * 4),
        x(c.tokens, c.d, c.x_gap),
        copied(c.rows, c.d),
        w_up_gate(c.experts() * 2 * c.h, c.d),
        du(c.rows, 2 * c.h) {
    write(indices);
    write_weights();
    const auto scale = static_cast<float>(3.0 / std::sqrt(static_cast<double>(c.d)));
    for (const Matrix* matrix : {&x, &copied, &du}) matrix->unwritten(queue);
    for (std::int64_t token = 0; token + 1 < c.tokens; ++token) {
      fill_normal(x.memory.as<BFloat16>() + token * x.stride, c.d,
                  1000 + static_cast<std::uint64_t>(token), 1.0F, queue.get());
    }
    fill_normal(du.memory.bytes(), c.routed() * du.stride, 2, 1.0F, queue.get());
    fill_normal(w_up_gate.memory.bytes(), w_up_gate.elements(), 3, scale, queue.get());
    queue.wait();
  }

  void write(const std::vector<std::int32_t>& indices) const {
    check(cudaMemcpy(x_rows_memory_.bytes(), indices.data(), indices.size() * 4,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  [[nodiscard]] std::int32_t* indices() const { return x_rows_memory_.as<std::int32_t>(); }
  [[nodiscard]] ConstTensorView x_rows() const {
    return vector(x_rows_memory_, description().rows);
  }
  /// f32 [M]: NaN in the tail, zero at row 2.
  [[nodiscard]] TensorView row_weights() const {
    return {row_weights_memory_.as<void>(), DType::f32, kDevice, 1,
            {description().rows, 0, 0},     {1, 0, 0}};
  }
  [[nodiscard]] ExpertMlpProblem problem(XRows x_rows, DType wgrad_dtype = DType::bf16,
                                         bool accumulate = false) const {
    ExpertMlpProblem mlp = ExpertRun::problem();
    mlp.x_rows = x_rows;
    mlp.wgrad_dtype = wgrad_dtype;
    mlp.accumulate_wgrad = accumulate;
    return mlp;
  }
  /// U, where it is given, and H of the rows where they lie.
  void up_gate(const backends::FusedExpert& gathering, const TensorView& u, const Matrix& h) const {
    gathering.up_gate(
        {x.view(), w_up_gate.weights(description().experts()), offs(), u, h.view(), x_rows()},
        workspace(), stream());
  }
  /// dw (+)= du^T x, of the rows where they lie.
  void up_gate_wgrad(const backends::FusedExpert& gathering, const WeightGradient& dw) const {
    gathering.up_gate_wgrad({du.view(), x.view(), x_rows(), offs(), dw.view()}, workspace(),
                            stream());
  }
  /// The rows in order, by a kernel that has a test of its own.
  void copy_rows() const {
    cuda::launch::take_rows({x.view(), x_rows(), offs(), copied.view(), device_here().info.num_sms},
                            stream());
  }
  [[nodiscard]] WeightGradient gradient(DType dtype) const {
    return {description().experts(), 2 * description().h, description().d, dtype};
  }
  /// dw (+)= du^T copied, by the grouped product.
  void copied_wgrad(const WeightGradient& dw, bool accumulate) const {
    product({.pass = Pass::wgrad,
             .n = 2 * description().h,
             .k = description().d,
             .accumulate = accumulate},
            du.view(), copied.view(), dw.view());
  }

 private:
  void write_weights() const {
    std::mt19937_64 random(17);
    std::normal_distribution<float> value(0, 1);
    std::vector<float> weights(static_cast<std::size_t>(description().rows),
                               std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t row = 0; row < description().routed(); ++row) {
      weights[static_cast<std::size_t>(row)] = row == 2 ? 0 : value(random);
    }
    check(cudaMemcpy(row_weights_memory_.bytes(), weights.data(), weights.size() * 4,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  DeviceMemory x_rows_memory_, row_weights_memory_;

 public:
  Matrix x, copied, w_up_gate, du;
};

}  // namespace moesaic::device_tests
