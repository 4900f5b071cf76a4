// SPDX-License-Identifier: Apache-2.0
// About how long cases take, before they have run: for plans, budgets and progress.
#pragma once

#include <string>

#include "experiment/design.hpp"
#include "experiment/held_operands.hpp"
#include "experiment/spent.hpp"
#include "moesaic/device.hpp"

namespace moesaic::cli::experiment {

/// Rates that a machine is expected to reach.
struct Pace {
  std::string of;  ///< "h200, by its preset", "this CPU, by a small product"
  double flops_per_second = 0, bytes_per_second = 0;
  bool host = false;         ///< Products run on the CPU: fewer warm-ups, no copies, no gate.
  std::int64_t threads = 1;  ///< Of the host, which draws operands and compares.
};
/// By a preset's constants, beside a host as such devices have. @throws Error{invalid_argument} for
/// an unknown name.
Pace preset_pace(const std::string& preset);
/// For the device that is here: its preset, h200 for a GPU without one, a measured product on a
/// CPU.
Pace device_pace(const DeviceInfo& device);

/// Of a process before its first case.
Spent start_seconds(const Pace& pace);
/// Of one arm of a case, its operands being there.
Spent arm_seconds(const Case& one, Arm arm, const Timing& timing, const Pace& pace);
/// Of drawing operands of this case and bringing them to the device.
Spent operand_seconds(const Case& one, const RowsToDraw& missing, const Pace& pace);

}  // namespace moesaic::cli::experiment
