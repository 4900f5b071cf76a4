// SPDX-License-Identifier: Apache-2.0
// One case: every arm checked, then those that passed timed by the design's regime.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/arm_call.hpp"
#include "experiment/plan.hpp"
#include "experiment/workbench.hpp"

namespace moesaic::cli::experiment {

/// A measured arm.
struct TimedArm {
  Arm arm = Arm::grouped;
  BenchCase result;
  std::optional<RegularShape> regular;
  std::vector<TelemetrySample> looks;  ///< Sustained only.
};

/// What else cases came to.
struct CaseTrouble {
  std::vector<RunCase> wrong;        ///< Checked, not timed, no row.
  std::vector<SkippedCase> skipped;  ///< where: the arm; reason: why it cannot run here.
};

struct CaseHooks {
  std::function<void(const TimedArm&)> finished;  ///< Each arm, as soon as its times stand.
  std::function<void(Arm)> begins;
  std::function<bool()> stop;  ///< Asked between sustained arms; the rest is then left.
};

/// Where a course runs its cases.
struct CourseSite {
  Workbench& bench;
  Account& account;  ///< Charged with every step.
};

/// @throws Error{invalid_argument} when the operands do not fit into memory, Error{device_failure}.
void run_task(const Task& task, const Design& design, const CourseSite& at, const CaseHooks& hooks,
              CaseTrouble& trouble);

/// One line of schema moesaic.bench/1 with what experiments add, without a newline.
std::string timed_row(const TimedArm& timed, const Task& task, const Design& design,
                      const BenchSetting& setting);

}  // namespace moesaic::cli::experiment
