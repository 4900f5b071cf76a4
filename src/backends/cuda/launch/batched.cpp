// SPDX-License-Identifier: Apache-2.0
// Dense products of one size as one cuBLAS call: what grouped products are compared with.

#include <array>
#include <memory>

#include "backends/cuda/launch/baselines.hpp"
#include "backends/cuda/launch/cublas_api.hpp"
#include "backends/cuda/launch/cuda_error.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

class Batched final : public detail::BatchedGemmImpl {
 public:
  Batched(const BatchedGemmProblem& problem, const DeviceInfo& device)
      : problem_(problem), device_(device.device) {
    const DeviceScope scope(device_.index);
    handle_ = std::make_unique<CublasHandle>();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/batched"; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return kCublasWorkspaceBytes;
  }
  void execute(const BatchedGemmArgs& args, const Workspace& workspace,
               const Stream& stream) const override {
    const DeviceScope scope(device_.index);
    DenseProduct product;
    product.m = problem_.m;
    product.n = problem_.n;
    product.k = problem_.k;
    product.a = args.a.data;
    product.b = args.w.data;
    product.d = args.d.data;
    product.b_transposed = true;
    product.a_row_stride = product.b_row_stride = problem_.k;
    product.d_row_stride = problem_.n;
    product.batch = problem_.batch;
    product.a_batch_stride = problem_.m * problem_.k;
    product.b_batch_stride = problem_.n * problem_.k;
    product.d_batch_stride = problem_.m * problem_.n;
    handle_->run(std::array{product}, stream.native(), workspace.bytes.data());
  }

 private:
  BatchedGemmProblem problem_;
  Device device_;
  std::unique_ptr<CublasHandle> handle_;
};

}  // namespace

Support supports_batched(const BatchedGemmProblem& problem) {
  if (problem.format != Format::bf16) {
    return {false, "cuda/cublas/batched multiplies bf16, not " + std::string(name(problem.format))};
  }
  return cublas().support;
}

std::unique_ptr<detail::BatchedGemmImpl> make_batched(const BatchedGemmProblem& problem,
                                                      const DeviceInfo& device) {
  return std::make_unique<Batched>(problem, device);
}

}  // namespace moesaic::backends::cuda::launch
