// SPDX-License-Identifier: Apache-2.0
// Groups of ranks, and what all exchanges derive from their problem.

#include "core/expert_parallel_impl.hpp"

#include <numeric>

#include "core/field_checks.hpp"
#include "core/validate.hpp"
#include "core/validate_exchange.hpp"
#include "math/fan_out_choice.hpp"

namespace moesaic {
namespace {

std::vector<int> all_ranks(int num_ranks) {
  core::check_range("num_ranks", num_ranks, 1, core::kMaxRanks);
  std::vector<int> ranks(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

DispatchForm dispatch_form_of(const ExpertParallelProblem& problem, int num_ranks) {
  if (problem.dispatch != DispatchForm::automatic) {
    return problem.dispatch;
  }
  math::DispatchFacts facts;
  facts.num_ranks = num_ranks;
  facts.num_experts = problem.num_experts;
  facts.topk = problem.topk;
  facts.max_tokens = problem.max_tokens;
  facts.row_bytes = problem.d * size_bytes(core::operand_dtype(problem.format));
  return math::fan_out_saves_microseconds(facts) > 0 ? DispatchForm::fan_out : DispatchForm::direct;
}

}  // namespace

detail::SimulatedGroup::SimulatedGroup(int num_ranks)
    : ExpertParallelGroupImpl(num_ranks, all_ranks(num_ranks), Device{}) {}

std::vector<void*> detail::SimulatedGroup::make_buffer(std::int64_t /*id*/,
                                                       std::size_t size_bytes) {
  std::vector<void*> data;
  data.reserve(static_cast<std::size_t>(num_ranks()));
  for (int rank = 0; rank < num_ranks(); ++rank) {
    data.push_back(memory_.emplace_back(size_bytes).get().bytes.data());
  }
  return data;
}

detail::ExpertParallelImpl::ExpertParallelImpl(const ExpertParallelProblem& problem,
                                               ExpertParallelGroup group)
    : problem_(problem),
      group_(std::move(group)),
      dispatch_form_(dispatch_form_of(problem, group_.num_ranks())),
      max_rows_(core::rank_capacity_rows(problem)) {}

ExpertParallelGroup::ExpertParallelGroup(std::shared_ptr<detail::ExpertParallelGroupImpl> impl)
    : impl_(std::move(impl)) {}

ExpertParallelGroup ExpertParallelGroup::simulated(int num_ranks) {
  return ExpertParallelGroup(std::make_shared<detail::SimulatedGroup>(num_ranks));
}

int ExpertParallelGroup::num_ranks() const noexcept { return impl_->num_ranks(); }
std::span<const int> ExpertParallelGroup::local_ranks() const noexcept {
  return impl_->local_ranks();
}
Device ExpertParallelGroup::device() const noexcept { return impl_->device(); }
std::string_view ExpertParallelGroup::transport() const noexcept { return impl_->transport(); }
std::int64_t ExpertParallelGroup::barriers() const noexcept { return impl_->barriers(); }

SymmetricBuffer ExpertParallelGroup::lease(std::size_t size_bytes) const {
  return impl_->pool().lease(size_bytes, [this](std::int64_t id, std::size_t bytes) {
    return impl_->make_buffer(id, bytes);
  });
}
void ExpertParallelGroup::release(const SymmetricBuffer& buffer) const {
  impl_->pool().release(buffer);
}
PoolUsage ExpertParallelGroup::pool_usage() const { return impl_->pool().usage(); }

void ExpertParallelGroup::barrier(Stream stream) const {
  core::check_stream(stream, device());
  impl_->barrier(stream);
}
void ExpertParallelGroup::check(Stream stream) const {
  core::check_stream(stream, device());
  impl_->check(stream);
}

}  // namespace moesaic
