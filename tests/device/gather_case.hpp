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
#include <memory>
#include <random>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/launch/activation.hpp"
#include "device/case.hpp"
#include "device/matrix.hpp"
#include "moesaic/dtype.hpp"
#include "moesaic/expert_mlp.hpp"

namespace moesaic::device_tests {

namespace cuda = backends::cuda;

struct GatherCase {
  std::vector<std::int32_t> offs;
  std::int64_t rows = 0;    ///< M
  std::int64_t tokens = 0;  ///< T; the last one is nobody's.
  std::int64_t d = 0, h = 0;
  UpGateOrder order = UpGateOrder::up_gate;
  int num_sms = 0;
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
  const std::int64_t routed = std::clamp<std::int64_t>(c.offs.back(), 0, c.rows);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const bool outside = row >= routed || row % 11 == 5;
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

class GatherRun {
 public:
  explicit GatherRun(const GatherCase& c) : GatherRun(c, some_indices(c)) {}
  GatherRun(const GatherCase& c, const std::vector<std::int32_t>& indices)
      : case_(c),
        experts_(static_cast<std::int64_t>(c.offs.size())),
        offs_memory_(experts_ * 4),
        x_rows_memory_(c.rows * 4),
        row_weights_memory_(c.rows * 4),
        workspace_(1 << 20),
        x(c.tokens, c.d, c.x_gap),
        copied(c.rows, c.d),
        w_up_gate(experts_ * 2 * c.h, c.d),
        du(c.rows, 2 * c.h) {
    check(
        cudaMemcpy(offs_memory_.bytes(), c.offs.data(), c.offs.size() * 4, cudaMemcpyHostToDevice),
        "cudaMemcpy");
    write(indices);
    write_weights();
    check(cudaMemset(workspace_.bytes(), 0, 1 << 20), "cudaMemset");
    const auto scale = static_cast<float>(3.0 / std::sqrt(static_cast<double>(c.d)));
    for (const Matrix* matrix : {&x, &copied, &du}) matrix->unwritten(queue);
    for (std::int64_t token = 0; token + 1 < c.tokens; ++token) {
      fill_normal(x.memory.as<BFloat16>() + token * x.stride, c.d,
                  1000 + static_cast<std::uint64_t>(token), 1.0F, queue.get());
    }
    const std::int64_t routed = std::clamp<std::int64_t>(c.offs.back(), 0, c.rows);
    fill_normal(du.memory.bytes(), routed * du.stride, 2, 1.0F, queue.get());
    fill_normal(w_up_gate.memory.bytes(), w_up_gate.elements(), 3, scale, queue.get());
    queue.wait();
  }

  void write(const std::vector<std::int32_t>& indices) const {
    check(cudaMemcpy(x_rows_memory_.bytes(), indices.data(), indices.size() * 4,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  [[nodiscard]] std::int32_t* indices() const { return x_rows_memory_.as<std::int32_t>(); }
  [[nodiscard]] ConstTensorView offs() const { return vector(offs_memory_, experts_); }
  [[nodiscard]] ConstTensorView x_rows() const { return vector(x_rows_memory_, case_.rows); }
  /// f32 [M]: NaN in the tail, zero at row 2.
  [[nodiscard]] TensorView row_weights() const {
    return {row_weights_memory_.as<void>(), DType::f32, kDevice, 1, {case_.rows, 0, 0}, {1, 0, 0}};
  }
  [[nodiscard]] Workspace workspace() const { return {{workspace_.bytes(), 1 << 20}, kDevice}; }
  [[nodiscard]] Stream stream() const { return Stream::from_native(kDevice, queue.get()); }
  [[nodiscard]] ExpertMlpProblem problem(XRows x_rows, DType wgrad_dtype = DType::bf16,
                                         bool accumulate = false) const {
    ExpertMlpProblem mlp{};
    mlp.num_experts = static_cast<int>(experts_);
    mlp.max_rows = case_.rows;
    mlp.d = case_.d;
    mlp.h = case_.h;
    mlp.order = case_.order;
    mlp.x_rows = x_rows;
    mlp.wgrad_dtype = wgrad_dtype;
    mlp.accumulate_wgrad = accumulate;
    return mlp;
  }
  [[nodiscard]] std::unique_ptr<const backends::FusedExpert> fused(
      const ExpertMlpProblem& mlp) const {
    DeviceInfo info = device_here().info;
    if (case_.num_sms > 0) info.num_sms = case_.num_sms;
    auto expert = cuda::backend().fused_expert(mlp, info);
    EXPECT_NE(expert, nullptr);
    return expert;
  }
  /// The rows in order, by a kernel that has a test of its own.
  void copy_rows() const {
    cuda::launch::take_rows({x.view(), x_rows(), offs(), copied.view(), device_here().info.num_sms},
                            stream());
  }
  [[nodiscard]] WeightGradient gradient(DType dtype) const {
    return {experts_, 2 * case_.h, case_.d, dtype};
  }
  /// dw (+)= du^T copied, by the grouped product.
  void product(const WeightGradient& dw, bool accumulate) const {
    GroupedGemmProblem gemm;
    gemm.pass = Pass::wgrad;
    gemm.d_dtype = dw.dtype;
    gemm.num_experts = static_cast<int>(experts_);
    gemm.max_rows = case_.rows;
    gemm.n = 2 * case_.h;
    gemm.k = case_.d;
    gemm.accumulate = accumulate;
    PlanOptions options;
    options.num_sms = case_.num_sms;
    GroupedGemmArgs args;
    args.a.qdata = du.view();
    args.b.qdata = copied.view();
    args.offs = offs();
    args.d = dw.view();
    GroupedGemm::plan(gemm, device_here().info, options).execute(args, workspace(), stream());
  }
  void expect_equal(const DeviceMemory& a, const DeviceMemory& b, std::int64_t bytes,
                    const char* what) const {
    DeviceMemory result(sizeof(Differences));
    const Differences none{0, ~0ULL};
    check(cudaMemcpy(result.bytes(), &none, sizeof(none), cudaMemcpyHostToDevice), "cudaMemcpy");
    count_differences(a.bytes(), b.bytes(), bytes, result.as<Differences>(), queue.get());
    queue.wait();
    Differences found{};
    check(cudaMemcpy(&found, result.bytes(), sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
    EXPECT_EQ(found.count, 0U) << what << ": first at byte " << found.first_byte << " of " << bytes;
  }

 private:
  static ConstTensorView vector(const DeviceMemory& memory, std::int64_t length) {
    return {memory.as<void>(), DType::i32, kDevice, 1, {length, 0, 0}, {1, 0, 0}};
  }

  void write_weights() const {
    std::mt19937_64 random(17);
    std::normal_distribution<float> value(0, 1);
    std::vector<float> weights(static_cast<std::size_t>(case_.rows),
                               std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t row = 0; row < std::clamp<std::int64_t>(case_.offs.back(), 0, case_.rows);
         ++row) {
      weights[static_cast<std::size_t>(row)] = row == 2 ? 0 : value(random);
    }
    check(cudaMemcpy(row_weights_memory_.bytes(), weights.data(), weights.size() * 4,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }

  GatherCase case_;
  std::int64_t experts_;
  DeviceMemory offs_memory_, x_rows_memory_, row_weights_memory_, workspace_;

 public:
  Matrix x, copied, w_up_gate, du;
  Queue queue;
};

}  // namespace moesaic::device_tests
