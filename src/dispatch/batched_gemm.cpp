// SPDX-License-Identifier: Apache-2.0
// The public handle of regular products: checks, picks the backend that has them, passes on.

#include "moesaic/batched_gemm.hpp"

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "core/message.hpp"
#include "dispatch/backend_list.hpp"

namespace moesaic {
namespace {

void check(const BatchedGemmProblem& problem) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const auto& [field, value] : {std::pair{"batch", problem.batch}, std::pair{"m", problem.m},
                                     std::pair{"n", problem.n}, std::pair{"k", problem.k}}) {
    if (value < 1 || value > kMost) {
      core::refuse(field, "1 to " + std::to_string(kMost), std::to_string(value));
    }
  }
  if (problem.format != Format::bf16 && problem.format != Format::f32) {
    core::refuse("format", "bf16 or f32", name(problem.format));
  }
}

void check_view(const char* argument, const ConstTensorView& view, const ConstTensorView& wanted) {
  const bool fits = view.dtype == wanted.dtype && view.device == wanted.device &&
                    view.rank == wanted.rank && view.shape == wanted.shape &&
                    view.stride == wanted.stride && view.data != nullptr;
  if (!fits) {
    core::refuse(argument, describe(wanted) + ", packed, with data",
                 describe(view) + (view.data == nullptr ? ", without data" : ""));
  }
}

ConstTensorView packed(const BatchedGemmProblem& problem, std::int64_t rows, std::int64_t columns,
                       Device device) {
  ConstTensorView view;
  view.dtype = problem.format == Format::bf16 ? DType::bf16 : DType::f32;
  view.device = device;
  view.rank = 3;
  view.shape = {problem.batch, rows, columns};
  view.stride = {rows * columns, columns, 1};
  return view;
}

}  // namespace

BatchedGemm BatchedGemm::plan(const BatchedGemmProblem& problem, const DeviceInfo& device) {
  check(problem);
  BatchedGemm plan;
  plan.problem_ = problem;
  plan.device_ = device.device;
  std::string reasons;
  for (const backends::Backend* backend : dispatch::all_backends()) {
    if (backend->device_kind() != device.device.kind) continue;
    Support why_not;
    plan.impl_ = backend->batched_gemm(problem, device, why_not);
    if (plan.impl_ != nullptr) return plan;
    reasons += (reasons.empty() ? "" : "; ") + why_not.reason;
  }
  throw Error(ErrorCode::unsupported, "no library of dense products on " +
                                          to_string(device.device) + ": " +
                                          (reasons.empty() ? "this build has none" : reasons));
}

std::string_view BatchedGemm::implementation() const noexcept { return impl_->name(); }
std::size_t BatchedGemm::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }

void BatchedGemm::execute(const BatchedGemmArgs& args, Workspace workspace, Stream stream) const {
  check_view("a", args.a, packed(problem_, problem_.m, problem_.k, device_));
  check_view("w", args.w, packed(problem_, problem_.n, problem_.k, device_));
  check_view("d", args.d, packed(problem_, problem_.m, problem_.n, device_));
  if (stream.device() != device_) {
    core::refuse("stream", "a stream of " + to_string(device_), to_string(stream.device()));
  }
  if (workspace.bytes.size() < impl_->workspace_bytes()) {
    core::refuse("workspace", std::to_string(impl_->workspace_bytes()) + " bytes",
                 std::to_string(workspace.bytes.size()), ErrorCode::workspace_too_small);
  }
  impl_->execute(args, workspace, stream);
}

}  // namespace moesaic
