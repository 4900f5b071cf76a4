// SPDX-License-Identifier: Apache-2.0
// The oracle: plain loops, sums in double precision, one rounding. Takes every problem on a CPU.
#pragma once

#include "backends/backend.hpp"

namespace moesaic::backends::reference {

const Backend& backend();

}  // namespace moesaic::backends::reference
