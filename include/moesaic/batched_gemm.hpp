// SPDX-License-Identifier: Apache-2.0
// Regular products by the device's own library: what people compare a grouped product with. A dense
// product is a batch of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "moesaic/device.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "moesaic/stream.hpp"
#include "moesaic/tensor.hpp"
#include "moesaic/workspace.hpp"

namespace moesaic {

/// d[i] = a[i] w[i]^T for every i of the batch: a [batch, m, k], w [batch, n, k], d [batch, m, n].
struct BatchedGemmProblem {
  Format format = Format::bf16;                 ///< bf16 or f32; d has the same type.
  std::int64_t batch = 1, m = 0, n = 0, k = 0;  ///< Positive, below 2^31.
};

/// Packed row-major views of the problem's shapes, rank 3, on the plan's device.
struct BatchedGemmArgs {
  ConstTensorView a, w;
  TensorView d;
};

namespace detail {
class BatchedGemmImpl;
}  // namespace detail

/// A planned batch: cuBLAS on CUDA devices, oneDNN on the CPU. Immutable, cheap to copy, safe to
/// share between threads. f32 accumulation, one rounding.
class BatchedGemm {
 public:
  /// @throws Error{invalid_argument} on a malformed problem, naming the field; Error{unsupported}
  /// with the reason when there is no such library here.
  static BatchedGemm plan(const BatchedGemmProblem& problem, const DeviceInfo& device);

  [[nodiscard]] const BatchedGemmProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] std::string_view implementation() const noexcept;  ///< "cuda/cublas/batched".
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;

  /// Enqueues the products on `stream`: no allocation, no wait for the device, capturable.
  /// @throws Error{invalid_argument} naming the argument, what was expected and what came;
  /// Error{workspace_too_small}.
  void execute(const BatchedGemmArgs& args, Workspace workspace, Stream stream) const;

 private:
  BatchedGemm() = default;
  BatchedGemmProblem problem_{};
  Device device_{};
  std::shared_ptr<const detail::BatchedGemmImpl> impl_;
};

}  // namespace moesaic
