// SPDX-License-Identifier: Apache-2.0
// What launches of grouped kernels say of their operands, of a product or of a part of an expert.
#pragma once

#include "backends/backend.hpp"
#include "backends/cuda/block/kernel_config.hpp"
#include "backends/cuda/block/tensor_maps.hpp"

namespace moesaic::backends::cuda::launch {

/// An operand without rows may have any address; its map needs a good one and never reads it.
ConstTensorView with_address(ConstTensorView view, const void* stand_in);

/// Offsets, counters and fault word of a launch; the rest is the product's.
KernelParams params_of(const ConstTensorView& offs, const Workspace& workspace, int num_experts,
                       std::int64_t max_rows);

// ---- forward, dgrad

/// The rows that are multiplied [M, contraction], whole tiles of them and few.
void map_row_operand(const ConstTensorView& a, const KernelConfig& config, TensorMaps& maps);
/// The weights that they are multiplied by, as the config reads them.
void map_weight_operand(const ConstTensorView& b, const KernelConfig& config, TensorMaps& maps,
                        KernelParams& params);

// ---- wgrad

/// dw (+)= left^T right, as the kernel counts it, of `right_columns` columns: all but `right`.
void map_weight_gradient(const ConstTensorView& left, std::int64_t right_columns,
                         const TensorView& dw, bool accumulate, const KernelConfig& config,
                         TensorMaps& maps, KernelParams& params);
/// The rows that are contracted with those of left.
void map_right_operand(const ConstTensorView& right, const KernelConfig& config, TensorMaps& maps,
                       KernelParams& params);

// ---- both

/// In place of map_row_operand or map_right_operand: rows of x as x_rows says they lie.
GatherParams gather_of(const ConstTensorView& x, const ConstTensorView& x_rows,
                       const void* stand_in);

}  // namespace moesaic::backends::cuda::launch
