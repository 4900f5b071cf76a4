// SPDX-License-Identifier: Apache-2.0
// The one place that knows the shape of a result row, schema moesaic.bench/1.
#pragma once

#include <string>

#include "harness/comparison.hpp"

namespace moesaic::bench {

/// One arm with all its circumstances: date, commit, command, device, toolchain, problem, routing,
/// implementation, timing, work, derived figures and the check that it passed. FLOP/s and a ratio
/// are null where there is no product or no arm to compare with; `memory` is there only where the
/// memory was measured.
/// @throws Error{invalid_argument} when nothing was checked: no figure without a check.
Json result_row(const Comparison& comparison, const Measured& measured, const std::string& command);

}  // namespace moesaic::bench
