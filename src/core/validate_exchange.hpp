// SPDX-License-Identifier: Apache-2.0
// The checks every exchange of rows passes before a backend sees it. An argument of rank i is named
// ranks[i].name.
#pragma once

#include <cstdint>
#include <span>

#include "core/expert_parallel_impl.hpp"

namespace moesaic::core {

inline constexpr std::int64_t kMaxRanks = 1024;

/// @throws Error{invalid_argument} naming the field.
void check_problem(const ExpertParallelProblem& problem, int num_ranks);

/// @throws Error{invalid_argument} naming the option.
void check_options(const NvshmemGroupOptions& options);

/// M = ceil(c * T * topk), of a problem that has been checked.
std::int64_t rank_capacity_rows(const ExpertParallelProblem& problem);

/// Shapes, types, devices, strides, workspaces, and that nothing written overlaps anything else of
/// any rank.
void check_args(const detail::ExpertParallelImpl& exchange, std::span<const RouteMapsArgs> ranks);
void check_args(const detail::ExpertParallelImpl& exchange, std::span<const DispatchPutArgs> ranks);
void check_args(const detail::ExpertParallelImpl& exchange, std::span<const CombineGetArgs> ranks);
void check_args(const detail::ExpertParallelImpl& exchange, std::span<const GatherGetArgs> ranks);
void check_args(const detail::ExpertParallelImpl& exchange, std::span<const ProbsGradArgs> ranks);

/// @throws Error{invalid_argument} naming nblocks.
void check_nblocks(int nblocks);

}  // namespace moesaic::core
