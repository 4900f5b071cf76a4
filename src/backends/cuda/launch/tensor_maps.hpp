// SPDX-License-Identifier: Apache-2.0
// Tensor maps of the grouped kernels: which dimensions a copy box runs over. One map serves all
// experts.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "backends/cuda/block/kernel_config.hpp"
#include "moesaic/tensor.hpp"

namespace moesaic::backends::cuda::launch {

/// Rows of [M, columns], contraction contiguous: box 64 x `box_rows`.
CUtensorMap map_rows(const ConstTensorView& matrix, int box_rows);
/// Lines of [E, lines, columns], contraction contiguous: box 64 x `box_lines`.
CUtensorMap map_weights(const ConstTensorView& weights, int box_lines);
/// [E, contraction, columns]: panels of 64 columns x 64 lines, all of a tile in one box or one at a
/// time.
CUtensorMap map_weight_panels(const ConstTensorView& weights, int box_columns, PanelCopy copy);
/// [M, columns] with the bound of any segment: panels of 64 columns x 64 rows.
CUtensorMap map_ragged_panels(const ConstTensorView& matrix, int box_columns, PanelCopy copy);
/// Output [M, columns] with the bound of any segment: panels 128 bytes wide, one warp's rows high.
CUtensorMap map_ragged_output(const ConstTensorView& matrix);
/// Output [E, lines, columns]: panels 128 bytes wide, one warp's lines high.
CUtensorMap map_weight_output(const ConstTensorView& weights);

/// Up and gate, whose U [M, 2h] has two parts (block/activation_layout.hpp): lines of [E, 2h,
/// columns], contraction contiguous: box 64 x `box_lines` of both parts, which come one after the
/// other.
CUtensorMap map_paired_weights(const ConstTensorView& weights, const PartLayout& layout,
                               int box_lines);

/// Whether one box may hold several panels of this width.
PanelCopy panel_copy(std::int64_t columns);

}  // namespace moesaic::backends::cuda::launch
