// SPDX-License-Identifier: Apache-2.0
// The exchange of rows between GPUs, one rank per process.
#pragma once

#include "backends/row_exchange.hpp"

namespace moesaic::backends::cuda::launch {

const ExpertParallelImplementation& nvshmem_exchange();

}  // namespace moesaic::backends::cuda::launch
