// SPDX-License-Identifier: Apache-2.0
// What all launches of forward and dgrad kernels say of their operands.
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

/// The rows that are multiplied [M, contraction], whole tiles of them and few.
void map_row_operand(const ConstTensorView& a, const KernelConfig& config, TensorMaps& maps);
/// The weights that they are multiplied by, as the config reads them.
void map_weight_operand(const ConstTensorView& b, const KernelConfig& config, TensorMaps& maps,
                        KernelParams& params);

}  // namespace moesaic::backends::cuda::launch
