// SPDX-License-Identifier: Apache-2.0
// What a backend offers to expert parallelism: one way of moving rows between ranks.
#pragma once

#include <memory>
#include <string_view>

#include "core/expert_parallel_impl.hpp"

namespace moesaic::backends {

/// One implementation of the exchange: a row of the candidate list.
class ExpertParallelImplementation {
 public:
  virtual ~ExpertParallelImplementation() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The problem is well formed. Never throws.
  [[nodiscard]] virtual Support supports(const ExpertParallelProblem& problem,
                                         const ExpertParallelGroup& group) const = 0;
  /// Called after `supports` said yes.
  [[nodiscard]] virtual std::shared_ptr<const detail::ExpertParallelImpl> make(
      const ExpertParallelProblem& problem, const ExpertParallelGroup& group) const = 0;
  /// This process's rank of a group of processes; null where ranks are no processes. The options
  /// have been checked.
  [[nodiscard]] virtual std::shared_ptr<detail::ExpertParallelGroupImpl> join(
      const NvshmemGroupOptions& /*options*/) const {
    return nullptr;
  }
};

}  // namespace moesaic::backends
