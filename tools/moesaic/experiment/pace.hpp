// SPDX-License-Identifier: Apache-2.0
// About how long cases take, before they have run: for plans, budgets and progress.
#pragma once

#include <string>

#include "experiment/design.hpp"
#include "moesaic/device.hpp"

namespace moesaic::cli::experiment {

/// Rates that a machine is expected to reach.
struct Pace {
  std::string of;  ///< "h200, by its preset", "this CPU, by a small product"
  double flops_per_second = 0, bytes_per_second = 0;
  bool host = false;         ///< Products run on the CPU: fewer warm-ups, no copies.
  std::int64_t threads = 1;  ///< Of the host, which makes operands and checks.
};
/// By a preset's constants. @throws Error{invalid_argument} for an unknown name.
Pace preset_pace(const std::string& preset);
/// For the device that is here: its preset, h200 for a GPU without one, a measured product on a
/// CPU.
Pace device_pace(const DeviceInfo& device);

/// Seconds of one arm of a case: check and timing.
double arm_seconds(const Case& one, Arm arm, const Timing& timing, const Pace& pace);
/// Seconds of making a case's operands when the case before it had others.
double operand_seconds(const Case& one, const Pace& pace);
/// True when `next` can use the operands of `before`.
bool same_operands(const Case& before, const Case& next);

}  // namespace moesaic::cli::experiment
