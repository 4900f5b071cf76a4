// SPDX-License-Identifier: Apache-2.0
// Expert parallelism: every call checked, then handed to the implementation that serves the group.

#include "moesaic/expert_parallel.hpp"

#include <utility>

#include "core/expert_parallel_impl.hpp"
#include "core/validate.hpp"
#include "core/validate_exchange.hpp"
#include "core/workspace_header.hpp"
#include "dispatch/backend_list.hpp"
#include "math/route_fault.hpp"
#include "moesaic/build_info.hpp"

namespace moesaic {
namespace {

using Impl = detail::ExpertParallelImpl;
using Implementation = backends::ExpertParallelImplementation;

std::vector<const Implementation*> implementations() {
  std::vector<const Implementation*> list;
  for (const backends::Backend* backend : dispatch::all_backends()) {
    if (backend->expert_parallel() != nullptr) {
      list.push_back(backend->expert_parallel());
    }
  }
  return list;
}

template <class Args>
void check(const Impl& impl, std::span<const Args> ranks, const Stream& stream, int nblocks = 0) {
  core::check_args(impl, ranks);
  core::check_stream(stream, impl.group().device());
  core::check_nblocks(nblocks);
}

core::WorkspaceHeader header_of(const Impl& impl, const Workspace& workspace,
                                const Stream& stream) {
  core::check_workspace(workspace, core::kWorkspaceHeaderBytes, impl.group().device());
  core::check_stream(stream, impl.group().device());
  return dispatch::device_backend(workspace.device).read_header(workspace, stream);
}

}  // namespace

ExpertParallelGroup ExpertParallelGroup::nvshmem(const NvshmemGroupOptions& options) {
  core::check_options(options);
  for (const Implementation* implementation : implementations()) {
    if (auto impl = implementation->join(options)) {
      return ExpertParallelGroup(std::move(impl));
    }
  }
  for (const BackendStatus& status : backend_status()) {
    if (status.name == "nvshmem") {
      throw Error(ErrorCode::unsupported, "ExpertParallelGroup::nvshmem: " + status.detail);
    }
  }
  throw Error(ErrorCode::unsupported, "ExpertParallelGroup::nvshmem: not in this build");
}

ExpertParallel::ExpertParallel(std::shared_ptr<const detail::ExpertParallelImpl> impl)
    : impl_(std::move(impl)) {}

ExpertParallel ExpertParallel::plan(const ExpertParallelProblem& problem,
                                    const ExpertParallelGroup& group) {
  core::check_problem(problem, group.num_ranks());
  std::string reasons;
  for (const Implementation* implementation : implementations()) {
    const Support support = implementation->supports(problem, group);
    if (support) {
      return ExpertParallel(implementation->make(problem, group));
    }
    reasons += "; " + std::string(implementation->name()) + ": " + support.reason;
  }
  throw Error(ErrorCode::unsupported, "no implementation serves this " +
                                          std::string(group.transport()) + " group" + reasons);
}

std::vector<Candidate> ExpertParallel::candidates(const ExpertParallelProblem& problem,
                                                  const ExpertParallelGroup& group) {
  std::vector<Candidate> list;
  for (const Implementation* implementation : implementations()) {
    list.push_back({std::string(implementation->name()), implementation->supports(problem, group)});
  }
  return list;
}

const ExpertParallelProblem& ExpertParallel::problem() const noexcept { return impl_->problem(); }
const ExpertParallelGroup& ExpertParallel::group() const noexcept { return impl_->group(); }
std::string_view ExpertParallel::implementation() const noexcept { return impl_->name(); }
DispatchForm ExpertParallel::dispatch_form() const noexcept { return impl_->dispatch_form(); }
std::int64_t ExpertParallel::max_rows() const noexcept { return impl_->max_rows(); }
int ExpertParallel::local_experts() const noexcept { return impl_->local_experts(); }
std::size_t ExpertParallel::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }

void ExpertParallel::route_maps(std::span<const RouteMapsArgs> ranks, Stream stream) const {
  check(*impl_, ranks, stream);
  impl_->route_maps(ranks, stream);
}

void ExpertParallel::dispatch_put(std::span<const DispatchPutArgs> ranks, Stream stream,
                                  const PutOptions& options) const {
  check(*impl_, ranks, stream, options.nblocks);
  impl_->dispatch_put(ranks, stream, options);
}

void ExpertParallel::combine_get(std::span<const CombineGetArgs> ranks, Stream stream,
                                 const GetOptions& options) const {
  check(*impl_, ranks, stream, options.nblocks);
  impl_->combine_get(ranks, stream, options, detail::CombineForm::gather_then_sum);
}

void ExpertParallel::combine_get_fused(std::span<const CombineGetArgs> ranks, Stream stream,
                                       const GetOptions& options) const {
  check(*impl_, ranks, stream, options.nblocks);
  impl_->combine_get(ranks, stream, options, detail::CombineForm::fused);
}

void ExpertParallel::gather_get(std::span<const GatherGetArgs> ranks, Stream stream,
                                const GetOptions& options) const {
  check(*impl_, ranks, stream, options.nblocks);
  impl_->gather_get(ranks, stream, options);
}

void ExpertParallel::probs_grad(std::span<const ProbsGradArgs> ranks, Stream stream) const {
  check(*impl_, ranks, stream);
  impl_->probs_grad(ranks, stream);
}

RouteFault ExpertParallel::read_fault(Workspace workspace, Stream stream) const {
  const math::RouteFault fault =
      math::decode_route_fault(header_of(*impl_, workspace, stream).route_fault_word);
  if (!fault) {
    return {};
  }
  const backends::Backend& backend = dispatch::device_backend(workspace.device);
  backend.fill(workspace.bytes.data() + offsetof(core::WorkspaceHeader, route_fault_word),
               std::byte{0}, sizeof(core::WorkspaceHeader::route_fault_word), stream);
  backend.synchronize(stream);
  RouteFault result;
  result.kind = static_cast<RouteFault::Kind>(fault.kind);
  result.token = fault.route / problem().topk;
  result.slot = fault.route % problem().topk;
  result.value = fault.value;
  return result;
}

std::int64_t ExpertParallel::read_dropped_routes(Workspace workspace, Stream stream) const {
  return header_of(*impl_, workspace, stream).dropped_routes;
}

}  // namespace moesaic
