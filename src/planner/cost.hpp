// SPDX-License-Identifier: Apache-2.0
// The padded batch under the cost terms of cost.cpp: what a plan sets its own estimate against.
#pragma once

#include "moesaic/planner.hpp"

namespace moesaic::planner {

/// Seconds of a batched product of `experts` times C rows: max(2 E C n k / FLOP rate, every
/// expert's weight once / DRAM rate) plus launch and tiles as for one grouped launch. Empty experts
/// are multiplied and their weights read; rows past C are not in it.
double padded_batch_seconds(const CapacityLedger& ledger, std::int64_t experts,
                            const CostInput& input, const DeviceModel& device);

}  // namespace moesaic::planner
