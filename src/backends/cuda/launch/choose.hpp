// SPDX-License-Identifier: Apache-2.0
// Which compiled kernel takes a problem: arithmetic on the problem's sizes, no device needed.
#pragma once

#include "backends/backend.hpp"
#include "backends/cuda/launch/instances.hpp"

namespace moesaic::backends::cuda::launch {

/// Whether an instance can take the problem on such a device, for the strategy that asks.
Support supports_grouped(const PlanRequest& request, Strategy strategy);

/// Whether this instance computes the problem's pass, storage and output type within the SM limit.
Support matches(const Instance& instance, const GroupedGemmProblem& problem, int num_sms);

/// The matching instance for the problem's rows per expert; with `batch_invariant` the one that
/// serves any number of rows. Called after supports_grouped said yes.
const Instance& choose_instance(const GroupedGemmProblem& problem, int num_sms,
                                bool batch_invariant);

}  // namespace moesaic::backends::cuda::launch
