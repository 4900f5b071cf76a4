// SPDX-License-Identifier: Apache-2.0
// Strategy `padded_bmm`: every expert's rows copied into C reserved rows, one cuBLAS batched
// product, rows copied back. Rows beyond C are counted and computed exactly, by the grouped kernel
// told to skip what the batch held.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "backends/cuda/launch/baselines.hpp"
#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/cublas_api.hpp"
#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/dense_product.hpp"
#include "backends/cuda/launch/padding.hpp"
#include "backends/cuda/launch/sm90_gemm.hpp"
#include "math/integer.hpp"
#include "moesaic/capacity.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

/// No device holds a batch of this size.
constexpr std::int64_t kMostBatchBytes = std::int64_t{1} << 40;

class PaddedBmm final : public detail::GroupedGemmImpl {
 public:
  explicit PaddedBmm(const PlanRequest& request)
      : GroupedGemmImpl(request.problem, request.device),
        capacity_(capacity_rows(request.problem.capacity, request.problem.max_rows,
                                request.problem.num_experts)),
        overflow_(request, choose_instance(request.problem)) {
    if (first_bytes() >= kMostBatchBytes || second_bytes() >= kMostBatchBytes) {
      throw Error(ErrorCode::unsupported, "capacity: " + std::to_string(problem().num_experts) +
                                              " experts of " + std::to_string(capacity_) +
                                              " rows reserve more than 2^40 bytes");
    }
    const DeviceScope scope(request.device.device.index);
    handle_ = std::make_unique<CublasHandle>();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda/cublas/padded_bmm"; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes + kCublasWorkspaceBytes +
           static_cast<std::size_t>(first_bytes() + second_bytes());
  }

  void execute(const GroupedGemmArgs& args, const Workspace& workspace,
               const Stream& stream) const override {
    const DeviceScope scope(device().device.index);
    const auto native = static_cast<cudaStream_t>(stream.native());
    const auto* offs = static_cast<const std::int32_t*>(args.offs.data);
    const bool wgrad = problem().pass == Pass::wgrad;
    record_faults(offs, problem(), workspace, native, capacity_);
    if (capacity_ > 0) {
      std::byte* scratch = workspace.bytes.data() + core::kWorkspaceHeaderBytes;
      std::byte* first = scratch + kCublasWorkspaceBytes;
      std::byte* second = first + first_bytes();
      const PaddedBatch first_batch{offs, capacity_, first, wgrad};
      const PaddedBatch second_batch{offs, capacity_, second, wgrad};
      pad(problem(), args.a.qdata, first_batch, device().num_sms, native);
      if (wgrad) {
        pad(problem(), args.b.qdata, second_batch, device().num_sms, native);
      }
      const std::array products = {batch(args, first, second)};
      handle_->run(products, stream.native(), scratch);
      if (!wgrad) {
        unpad(problem(), second_batch, args.d, device().num_sms, native);
      }
    }
    overflow_.enqueue(args, workspace, stream, capacity_);
  }

 private:
  [[nodiscard]] std::int64_t operand_columns(bool first) const {
    return first == (problem().pass == Pass::forward) ? problem().k : problem().n;
  }
  /// Saturates: a plan whose batch does not fit memory is refused by its constructor.
  [[nodiscard]] std::int64_t block_bytes(std::int64_t columns, std::int64_t element_bytes) const {
    const std::int64_t rows = math::saturating_mul(problem().num_experts, capacity_);
    return math::round_up<std::int64_t>(
        std::min(kMostBatchBytes, math::saturating_mul(rows, columns * element_bytes)), 256);
  }
  [[nodiscard]] std::int64_t first_bytes() const { return block_bytes(operand_columns(true), 2); }
  [[nodiscard]] std::int64_t second_bytes() const {
    return block_bytes(operand_columns(false),
                       problem().pass == Pass::wgrad ? 2 : size_bytes(problem().d_dtype));
  }

  [[nodiscard]] DenseProduct batch(const GroupedGemmArgs& args, std::byte* first,
                                   std::byte* second) const {
    DenseProduct product = dense_product(problem(), args, capacity_);
    product.batch = problem().num_experts;
    if (problem().pass == Pass::wgrad) {
      const bool enk = problem().weights == WeightStorage::enk;
      product.a = enk ? first : second;
      product.b = enk ? second : first;
      product.a_row_stride = product.m;
      product.b_row_stride = product.n;
      product.a_batch_stride = capacity_ * product.m;
      product.b_batch_stride = capacity_ * product.n;
      product.d_batch_stride = args.d.stride[0];
    } else {
      product.a = first;
      product.d = second;
      product.a_row_stride = product.k;
      product.d_row_stride = product.n;
      product.a_batch_stride = capacity_ * product.k;
      product.b_batch_stride = args.b.qdata.stride[0];
      product.d_batch_stride = capacity_ * product.n;
    }
    return product;
  }

  std::int64_t capacity_;
  Sm90Gemm overflow_;
  std::unique_ptr<CublasHandle> handle_;
};

}  // namespace

std::shared_ptr<const detail::GroupedGemmImpl> make_padded_bmm(const PlanRequest& request) {
  return std::make_shared<PaddedBmm>(request);
}

}  // namespace moesaic::backends::cuda::launch
