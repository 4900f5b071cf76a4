// SPDX-License-Identifier: Apache-2.0
// Parts of the grouped kernels, run on the device by themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/block/kernel_config.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::device_tests {

/// Each of `workers` CTAs walks the schedule twice, as a warp of the kernel and by the cursor of
/// math/, and counts in `*different` the tiles that are not the same, and those that one of the two
/// lacks; `*tiles` counts all.
void compare_row_walks(const std::int32_t* offs, const math::RowTileGrid<std::int32_t>& grid,
                       int workers, unsigned long long* different, unsigned long long* tiles,
                       cudaStream_t stream);
void compare_weight_walks(const std::int32_t* offs, const math::WeightTileGrid<std::int32_t>& grid,
                          int workers, unsigned long long* different, unsigned long long* tiles,
                          cudaStream_t stream);

/// A warp stages 16-row panel `panel` of a fragment whose elements hold their row, or their
/// column in the panel, and copy the staged kPanelBytes to `out`.
void stage_fragment(bool f32_out, bool rows, int panel, void* out, cudaStream_t stream);

}  // namespace moesaic::device_tests
