// SPDX-License-Identifier: Apache-2.0
// What the tests of the expert's kernels have around their matrices: a routing on the device, a
// workspace and a queue, the fused kernels and the product apart, and bits to compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "device/case.hpp"
#include "device/matrix.hpp"
#include "moesaic/expert_mlp.hpp"

namespace moesaic::device_tests {

namespace cuda = backends::cuda;

struct ExpertCase {
  std::vector<std::int32_t> offs;
  std::int64_t rows = 0;  ///< M
  std::int64_t d = 0, h = 0;
  UpGateOrder order = UpGateOrder::up_gate;
  int num_sms = 0;  ///< 0: all of them.

  [[nodiscard]] std::int64_t experts() const { return static_cast<std::int64_t>(offs.size()); }
  /// Where the last segment ends, kept inside of the buffer.
  [[nodiscard]] std::int64_t routed() const {
    return std::clamp<std::int64_t>(offs.back(), 0, rows);
  }
};

class ExpertRun {
 public:
  explicit ExpertRun(const ExpertCase& c)
      : case_(c), offs_memory_(c.experts() * 4), workspace_(kWorkspaceBytes) {
    check(
        cudaMemcpy(offs_memory_.bytes(), c.offs.data(), c.offs.size() * 4, cudaMemcpyHostToDevice),
        "cudaMemcpy");
    check(cudaMemset(workspace_.bytes(), 0, kWorkspaceBytes), "cudaMemset");
  }

  [[nodiscard]] ConstTensorView offs() const { return vector(offs_memory_, case_.experts()); }
  [[nodiscard]] Workspace workspace() const {
    return {{workspace_.bytes(), kWorkspaceBytes}, kDevice};
  }
  [[nodiscard]] Stream stream() const { return Stream::from_native(kDevice, queue.get()); }
  [[nodiscard]] DeviceInfo device() const {
    DeviceInfo info = device_here().info;
    if (case_.num_sms > 0) info.num_sms = case_.num_sms;
    return info;
  }
  [[nodiscard]] ExpertMlpProblem problem() const {
    ExpertMlpProblem mlp{};
    mlp.num_experts = static_cast<int>(case_.experts());
    mlp.max_rows = case_.rows;
    mlp.d = case_.d;
    mlp.h = case_.h;
    mlp.order = case_.order;
    return mlp;
  }
  /// Without a name: what is chosen.
  [[nodiscard]] std::unique_ptr<const backends::FusedExpert> fused(
      const ExpertMlpProblem& mlp, const std::optional<std::string>& implementation = {}) const {
    auto expert = cuda::backend().fused_expert(mlp, device(), implementation);
    EXPECT_NE(expert, nullptr);
    return expert;
  }
  /// d (+)= a b by the grouped product; `gemm` says its pass, widths and whether it accumulates.
  void product(GroupedGemmProblem gemm, const ConstTensorView& a, const ConstTensorView& b,
               const TensorView& d) const {
    gemm.d_dtype = d.dtype;
    gemm.num_experts = static_cast<int>(case_.experts());
    gemm.max_rows = case_.rows;
    PlanOptions options;
    options.num_sms = case_.num_sms;
    GroupedGemmArgs args;
    args.a.qdata = a;
    args.b.qdata = b;
    args.offs = offs();
    args.d = d;
    GroupedGemm::plan(gemm, device_here().info, options).execute(args, workspace(), stream());
  }

  void expect_equal(const DeviceMemory& a, const DeviceMemory& b, std::int64_t bytes,
                    const char* what) const {
    const Differences found = differences(a, b, bytes);
    EXPECT_EQ(found.count, 0U) << what << ": first at byte " << found.first_byte << " of " << bytes;
  }
  /// Gaps included.
  void expect_equal(const Matrix& a, const Matrix& b, const char* what) const {
    const Differences found = differences(a.memory, b.memory, a.bytes());
    const auto element = static_cast<std::int64_t>(found.first_byte / 2);
    EXPECT_EQ(found.count, 0U) << what << ": first at row " << element / a.stride << " column "
                               << element % a.stride;
  }

  Queue queue;

 protected:
  [[nodiscard]] const ExpertCase& description() const { return case_; }
  /// int32 [length].
  static ConstTensorView vector(const DeviceMemory& memory, std::int64_t length) {
    return {memory.as<void>(), DType::i32, kDevice, 1, {length, 0, 0}, {1, 0, 0}};
  }

 private:
  static constexpr std::size_t kWorkspaceBytes = 1 << 20;

  [[nodiscard]] Differences differences(const DeviceMemory& a, const DeviceMemory& b,
                                        std::int64_t bytes) const {
    const DeviceMemory result(sizeof(Differences));
    const Differences none{0, ~0ULL};
    check(cudaMemcpy(result.bytes(), &none, sizeof(none), cudaMemcpyHostToDevice), "cudaMemcpy");
    count_differences(a.bytes(), b.bytes(), bytes, result.as<Differences>(), queue.get());
    queue.wait();
    Differences found{};
    check(cudaMemcpy(&found, result.bytes(), sizeof(found), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return found;
  }

  ExpertCase case_;
  DeviceMemory offs_memory_, workspace_;
};

}  // namespace moesaic::device_tests
