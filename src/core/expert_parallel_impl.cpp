// SPDX-License-Identifier: Apache-2.0
// Groups of ranks, and what all exchanges derive from their problem.

#include "core/expert_parallel_impl.hpp"

#include <numeric>

#include "core/field_checks.hpp"
#include "core/validate_exchange.hpp"

namespace moesaic {
namespace {

std::vector<int> all_ranks(int num_ranks) {
  core::check_range("num_ranks", num_ranks, 1, core::kMaxRanks);
  std::vector<int> ranks(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

detail::SimulatedGroup::SimulatedGroup(int num_ranks)
    : ExpertParallelGroupImpl(num_ranks, all_ranks(num_ranks), Device{}) {}

detail::ExpertParallelImpl::ExpertParallelImpl(const ExpertParallelProblem& problem,
                                               ExpertParallelGroup group)
    : problem_(problem), group_(std::move(group)), max_rows_(core::rank_capacity_rows(problem)) {}

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

}  // namespace moesaic
