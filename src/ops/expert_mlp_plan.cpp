// SPDX-License-Identifier: Apache-2.0
// See expert_mlp_plan.hpp.

#include "ops/expert_mlp_plan.hpp"

#include <algorithm>
#include <initializer_list>

#include "core/sizes.hpp"
#include "core/validate.hpp"
#include "dispatch/backend_list.hpp"
#include "math/integer.hpp"

namespace moesaic::detail {
namespace {

/// Workspace that products may share, since they run in turn.
std::int64_t largest(std::size_t least, std::initializer_list<const GroupedGemm*> products) {
  std::size_t most = least;
  for (const GroupedGemm* product : products) {
    most = std::max(most, product->workspace_bytes());
  }
  return math::round_up<std::int64_t>(static_cast<std::int64_t>(most), kWorkspaceAlignment);
}

int usable_sms(const DeviceInfo& device, const PlanOptions& options) {
  const int all = std::max(1, device.num_sms);
  return options.num_sms > 0 ? std::min(all, options.num_sms) : all;
}

std::unique_ptr<const backends::FusedExpert> fused_of(const ExpertMlpProblem& mlp,
                                                      DeviceInfo device, int num_sms,
                                                      const PlanOptions& options) {
  device.num_sms = num_sms;
  return dispatch::activation_backend(device.device.kind)
      .fused_expert(mlp, device, options.implementation);
}

}  // namespace

std::int64_t matrix_bytes(const ExpertMlpProblem& mlp, std::int64_t columns, DType dtype) {
  return core::checked_bytes("max_rows", {mlp.max_rows, columns, size_bytes(dtype)});
}
std::int64_t matrix_bytes(const ExpertMlpProblem& mlp, std::int64_t columns) {
  return matrix_bytes(mlp, columns, core::operand_dtype(mlp.format));
}

ExpertMlpImpl::ExpertMlpImpl(const ExpertMlpProblem& mlp, const DeviceInfo& device,
                             const PlanOptions& options)
    : problem(mlp),
      device_info(device),
      threads(usable_sms(device, options)),
      fused(fused_of(mlp, device, threads, options)),
      up(plan(product(Pass::forward, 2 * mlp.h, mlp.d, Tail::leave), options)),
      down(plan(down_product(), options)),
      dh(plan(product(Pass::dgrad, mlp.d, mlp.h, Tail::leave), options)),
      dx(plan(product(Pass::dgrad, 2 * mlp.h, mlp.d, mlp.tail), options)),
      dw_up(plan(product(Pass::wgrad, 2 * mlp.h, mlp.d, Tail::leave), options)),
      dw_down(plan(product(Pass::wgrad, mlp.d, mlp.h, Tail::leave), options)) {
  const std::int64_t wide = matrix_bytes(mlp, 2 * mlp.h);
  const std::int64_t narrow = matrix_bytes(mlp, mlp.h);
  const std::int64_t x = copies_x() ? matrix_bytes(mlp, mlp.d) : 0;
  const std::int64_t again = mlp.activations == Activations::recompute ? wide : 0;
  const std::int64_t sums =
      mlp.row_weights && fused == nullptr ? matrix_bytes(mlp, mlp.d, DType::f32) : 0;
  const std::size_t header = fused == nullptr ? 0 : fused->workspace_bytes();
  forward_sizes.products = largest(header, {&up, &down});
  backward_sizes.products = largest(header, {&up, &dh, &dx, &dw_up, &dw_down});
  // What is fused makes neither U in forward, where it is not kept, nor sums before their weights,
  // nor, without these, dH. Sums take the place of U and of the rows of x.
  const std::int64_t before_h =
      core::checked_total_bytes("max_rows", {x, fused == nullptr ? again : 0});
  forward_sizes.scratch = core::checked_total_bytes("max_rows", {std::max(before_h, sums), narrow});
  backward_sizes.scratch = core::checked_total_bytes(
      "max_rows", {wide, again, narrow, x, fuses_gradient() ? 0 : narrow});
  for (WorkspaceSizes* sizes : {&forward_sizes, &backward_sizes}) {
    sizes->total = core::checked_total_bytes("max_rows", {sizes->products, sizes->scratch});
  }
}

GroupedGemm ExpertMlpImpl::plan(const GroupedGemmProblem& gemm, PlanOptions options) const {
  if (fused != nullptr) {
    options.implementation = fused->product(gemm);
  }
  return GroupedGemm::plan(gemm, device_info, options);
}

GroupedGemmProblem ExpertMlpImpl::product(Pass pass, std::int64_t n, std::int64_t k,
                                          Tail tail) const {
  GroupedGemmProblem gemm;
  gemm.pass = pass;
  gemm.format = problem.format;
  gemm.d_dtype = pass == Pass::wgrad ? problem.wgrad_dtype : core::operand_dtype(problem.format);
  gemm.num_experts = problem.num_experts;
  gemm.max_rows = problem.max_rows;
  gemm.n = n;
  gemm.k = k;
  gemm.accumulate = pass == Pass::wgrad && problem.accumulate_wgrad;
  gemm.tail = tail;
  gemm.strategy = problem.strategy;
  gemm.capacity = problem.capacity;
  return gemm;
}

/// Of y, or of what becomes y times the weights of its rows.
GroupedGemmProblem ExpertMlpImpl::down_product() const {
  GroupedGemmProblem gemm = product(Pass::forward, problem.d, problem.h,
                                    problem.row_weights ? Tail::leave : problem.tail);
  if (problem.row_weights) {
    gemm.d_dtype = DType::f32;
  }
  return gemm;
}

}  // namespace moesaic::detail
