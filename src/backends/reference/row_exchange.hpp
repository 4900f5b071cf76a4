// SPDX-License-Identifier: Apache-2.0
// All ranks of a group in one process, one after the other: the oracle of expert parallelism.
#pragma once

#include "backends/row_exchange.hpp"

namespace moesaic::backends::reference {

const ExpertParallelImplementation& simulated_exchange();

}  // namespace moesaic::backends::reference
