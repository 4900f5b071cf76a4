// SPDX-License-Identifier: Apache-2.0
// One arm of a case, ready to be checked and timed.
#pragma once

#include <functional>
#include <optional>

#include "bench.hpp"
#include "experiment/workbench.hpp"

namespace moesaic::cli::experiment {

/// The regular product that an arm multiplies in place of the grouped one.
struct RegularShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};

struct ArmCall {
  Arm arm = Arm::grouped;
  std::function<void()> execute;       ///< Enqueues one execute.
  std::function<CheckResult()> check;  ///< Poisons, executes once, compares sampled rows.
  bool waits = false;                  ///< Execute waits for the device: no gate may hold it.
  std::optional<RegularShape> regular;
  BenchCase result;  ///< All that is known before it is timed.
};

/// The arm of the case that `bench` was prepared for; `bench` must outlive it.
/// @throws Error{unsupported} with the reason when it cannot run here.
ArmCall make_call(Arm arm, const Case& one, Workbench& bench);

}  // namespace moesaic::cli::experiment
