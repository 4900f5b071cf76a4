// SPDX-License-Identifier: Apache-2.0
// See batched.hpp.

#include "backends/onednn/batched.hpp"

#include "backends/onednn/matmul.hpp"
#include "core/workspace_header.hpp"

namespace moesaic::backends::onednn {
namespace {

MatmulSpec spec_of(const BatchedGemmProblem& problem, const DeviceInfo& device) {
  MatmulSpec spec;
  spec.m = problem.m;
  spec.n = problem.n;
  spec.k = problem.k;
  spec.ab_dtype = spec.d_dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  spec.a_row_stride = problem.k;
  // w is stored [n, k]: its transpose steps by one along k.
  spec.b_row_stride = 1;
  spec.b_column_stride = problem.k;
  spec.d_row_stride = problem.n;
  spec.threads = device.num_sms;
  spec.batch = problem.batch;
  spec.a_batch_stride = problem.m * problem.k;
  spec.b_batch_stride = problem.n * problem.k;
  spec.d_batch_stride = problem.m * problem.n;
  return spec;
}

class Batched final : public detail::BatchedGemmImpl {
 public:
  Batched(const BatchedGemmProblem& problem, const DeviceInfo& device)
      : matmul_(compile(spec_of(problem, device))) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "cpu/onednn/batched"; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return matmul_->scratch_bytes();
  }
  void execute(const BatchedGemmArgs& args, const Workspace& workspace,
               const Stream& /*stream*/) const override {
    matmul_->run(args.a.data, args.w.data, args.d.data, workspace.bytes.data());
  }

 private:
  std::shared_ptr<const Matmul> matmul_;
};

}  // namespace

std::unique_ptr<detail::BatchedGemmImpl> make_batched(const BatchedGemmProblem& problem,
                                                      const DeviceInfo& device) {
  return std::make_unique<Batched>(problem, device);
}

}  // namespace moesaic::backends::onednn
