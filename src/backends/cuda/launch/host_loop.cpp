// SPDX-License-Identifier: Apache-2.0
// Strategy `host_loop`: copy the offsets to the host, wait for them, enqueue one cuBLAS product per
// expert. The wait is what this strategy is; it cannot be captured in a CUDA graph.

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/launch/baselines.hpp"
#include "backends/cuda/launch/cublas_api.hpp"
#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/dense_product.hpp"
#include "backends/cuda/launch/padding.hpp"
#include "backends/cuda/launch/sm90_gemm.hpp"
#include "math/expert_segment.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

class HostLoop final : public detail::GroupedGemmImpl {
 public:
  explicit HostLoop(const PlanRequest& request) : GroupedGemmImpl(request.problem, request.device) {
    const DeviceScope scope(request.device.device.index);
    handle_ = std::make_unique<CublasHandle>();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/host_loop"; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes + kCublasWorkspaceBytes;
  }

  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& stream) const override {
    const DeviceScope scope(device().device.index);
    const auto native = static_cast<cudaStream_t>(stream.native());
    std::vector<std::int32_t> offs(static_cast<std::size_t>(problem().num_experts));
    check_cuda(cudaMemcpyAsync(offs.data(), args.offs.data, offs.size() * sizeof(std::int32_t),
                               cudaMemcpyDeviceToHost, native),
               "cudaMemcpyAsync(offs to host)");
    check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize(offs to host)");
    record_faults(static_cast<const std::int32_t*>(args.offs.data), problem(), workspace, native);
    std::vector<DenseProduct> products;
    for (std::int32_t expert = 0; expert < problem().num_experts; ++expert) {
      const math::RowRange rows = math::expert_rows(offs, expert, problem().max_rows);
      if (!rows.empty()) {
        products.push_back(product_of(args, expert, rows));
      } else if (problem().pass == Pass::wgrad && !problem().accumulate) {
        clear(args.d, expert, native);
      }
    }
    handle_->run(products, stream.native(), workspace.bytes.data() + core::kWorkspaceHeaderBytes);
    if (problem().pass != Pass::wgrad && problem().tail == Tail::zero) {
      clear_rows(args.d, math::tail_begin(offs, problem().num_experts, problem().max_rows), native);
    }
  }

 private:
  [[nodiscard]] DenseProduct product_of(const GroupedGemmArgs& args, std::int64_t expert,
                                        math::RowRange rows) const {
    DenseProduct product = dense_product(problem(), args, rows.rows());
    const std::int64_t d_bytes = size_bytes(problem().d_dtype);
    product.a = offset(product.a, rows.begin * product.a_row_stride, 2);
    if (problem().pass == Pass::wgrad) {
      product.b = offset(product.b, rows.begin * product.b_row_stride, 2);
      product.d = const_cast<char*>(offset(product.d, expert * args.d.stride[0], d_bytes));
    } else {
      product.b = offset(product.b, expert * args.b.qdata.stride[0], 2);
      product.d = const_cast<char*>(offset(product.d, rows.begin * product.d_row_stride, d_bytes));
    }
    return product;
  }

  static void clear_matrix(const void* first, std::int64_t row_stride, std::int64_t rows,
                           std::int64_t columns, std::int64_t bytes, cudaStream_t stream) {
    if (rows > 0) {
      check_cuda(
          cudaMemset2DAsync(const_cast<void*>(first), static_cast<std::size_t>(row_stride * bytes),
                            0, static_cast<std::size_t>(columns * bytes),
                            static_cast<std::size_t>(rows), stream),
          "cudaMemset2DAsync");
    }
  }
  static void clear(const TensorView& d, std::int64_t expert, cudaStream_t stream) {
    const std::int64_t bytes = size_bytes(d.dtype);
    clear_matrix(offset(d.data, expert * d.stride[0], bytes), d.stride[1], d.shape[1], d.shape[2],
                 bytes, stream);
  }
  static void clear_rows(const TensorView& d, std::int64_t first, cudaStream_t stream) {
    const std::int64_t bytes = size_bytes(d.dtype);
    clear_matrix(offset(d.data, first * row_stride(d, 0), bytes), row_stride(d, 0),
                 d.shape[0] - first, d.shape[1], bytes, stream);
  }

  std::unique_ptr<CublasHandle> handle_;
};

}  // namespace

Support supports_baseline(const PlanRequest& request, Strategy strategy) {
  if (request.problem.strategy != strategy) {
    return {false, "it computes strategy " + std::string(name(strategy)) + ", not " +
                       std::string(name(request.problem.strategy))};
  }
  if (request.problem.format != Format::bf16) {
    return {false, "it multiplies bf16, not " + std::string(name(request.problem.format))};
  }
  if (request.options.batch_invariant) {
    return {false, "cuBLAS picks its kernels by the number of rows, so it is not batch invariant"};
  }
  return cublas().support;
}

std::shared_ptr<const detail::GroupedGemmImpl> make_host_loop(const PlanRequest& request) {
  return std::make_shared<HostLoop>(request);
}

}  // namespace moesaic::backends::cuda::launch
