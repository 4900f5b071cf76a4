// SPDX-License-Identifier: Apache-2.0
// Named ranges through NVTX, whose headers come with the CUDA toolkit and need no library.
#include "backends/cuda/launch/nvtx.hpp"

#include <nvtx3/nvToolsExt.h>

namespace moesaic::backends::cuda::launch {

void begin_range(const char* name) noexcept { nvtxRangePushA(name); }
void end_range() noexcept { nvtxRangePop(); }

}  // namespace moesaic::backends::cuda::launch
