// SPDX-License-Identifier: Apache-2.0
// The padded batch under the cost terms of cost.cpp: what a plan sets its own estimate against.
#pragma once

#include "moesaic/planner.hpp"

namespace moesaic::planner {

/// Seconds of a batched product of `experts` times C rows and, expert by expert after it, of the
/// rows that do not fit: max(2 (E C + overflow) n k / FLOP rate, all operands once / DRAM rate)
/// plus one launch and the tiles. Empty experts are multiplied and their weights read; an expert
/// that overflows costs its weight again. Further launches are not charged.
double padded_batch_seconds(const CapacityLedger& ledger, std::int64_t experts,
                            const CostInput& input, const DeviceModel& device);

}  // namespace moesaic::planner
