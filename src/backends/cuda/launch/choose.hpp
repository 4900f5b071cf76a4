// SPDX-License-Identifier: Apache-2.0
// Which compiled kernel takes a problem: arithmetic on the problem's sizes, no device needed.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/cuda/launch/instances.hpp"

namespace moesaic::backends::cuda::launch {

/// Whether an instance can take the problem on such a device, for the strategy that asks.
Support supports_grouped(const PlanRequest& request, Strategy strategy);

/// Whether the expert's products with the activation in their launch can take the problem.
Support supports_expert(const ExpertMlpProblem& problem, const DeviceInfo& device);

/// Whether this instance computes the problem's pass, storage and output type.
Support matches(const Instance& instance, const GroupedGemmProblem& problem);

/// Whether this instance is taken: one that matches, if it is named or suits.
Support takes(const Instance& instance, const PlanRequest& request);

/// The instance of single CTAs that takes the problem, unnamed. Called after supports_grouped said
/// yes. How the rows of an expert are cut is decided on the device, from their true number.
const Instance& choose_instance(const GroupedGemmProblem& problem);

/// Mean rows of an expert from which pairs of CTAs are taken: with fewer, what it leaves over of
/// 256 rows costs more than sharing weights saves (NB-0015).
inline constexpr std::int64_t kRowsForPairs = 2048;

/// Whether pairs of CTAs are the faster kernel for a product of `max_rows` rows.
bool pairs_pay(std::int64_t max_rows, int num_experts, int num_sms);

/// See GroupedGemm::regime. The kernels decide by the same arithmetic, math::RowTileGrid.
std::string_view regime_of(const KernelConfig& config, std::int64_t rows);

}  // namespace moesaic::backends::cuda::launch
