// SPDX-License-Identifier: Apache-2.0
// Operands of the grouped product that a record describes, dense and seeded, and every strategy's
// plan for it: what `run` and `bench` share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine.hpp"
#include "moesaic/check.hpp"
#include "run.hpp"
#include "staging.hpp"

namespace moesaic::cli {

struct PlannedGemm {
  Strategy strategy;
  GroupedGemm gemm;
  bool named = false;  ///< By --implementation.
};

/// Plans every strategy of `flags` first, then every implementation that they name, so that a
/// strategy that was asked for by name and cannot run is refused before any work, and so that the
/// largest workspace is known. Of several passes a named implementation may compute one alone: what
/// it does not take is skipped.
std::vector<PlannedGemm> plan_strategies(const routing::Record& record, const RunFlags& flags,
                                         const DeviceInfo& device, GroupedGemmProblem problem,
                                         RunResults& results);

/// Host bytes that the operands take, and workspaces where the host holds them.
MemoryNeed memory_need(const GroupedGemmProblem& problem, std::span<const PlannedGemm> planned,
                       const DeviceInfo& device);

/// Normal activations and weights; d is not written.
GemmTensors make_operands(const GroupedGemmProblem& problem, const routing::Record& record,
                          std::uint64_t seed);

/// Poisons d where it is computed, executes once, looks there for what was not written, brings back
/// sampled rows of every expert and compares them. The inputs have been staged.
CheckResult execute_and_check(const GroupedGemm& gemm, GemmTensors& tensors,
                              const SiteWorkspace& workspace, const Site& site, std::uint64_t seed);

}  // namespace moesaic::cli
