// SPDX-License-Identifier: Apache-2.0
// Route maps of all ranks of a simulated group.
#pragma once

#include <span>

#include "core/expert_parallel_impl.hpp"

namespace moesaic::backends::reference {

/// Maps, counts and inverse maps of all ranks; leaves fault and dropped routes in each workspace.
void make_route_maps(const detail::ExpertParallelImpl& exchange,
                     std::span<const RouteMapsArgs> ranks);

/// Keeps the fault of the lowest route seen since the header was last taken.
void record_route_fault(const Workspace& workspace, std::uint64_t fault_word);

}  // namespace moesaic::backends::reference
