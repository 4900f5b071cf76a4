// SPDX-License-Identifier: Apache-2.0
// See row_operands.hpp.

#include "backends/cuda/launch/row_operands.hpp"

#include "backends/cuda/launch/tensor_maps.hpp"

namespace moesaic::backends::cuda::launch {

ConstTensorView with_address(ConstTensorView view, const void* stand_in) {
  if (view.shape[0] == 0) {
    view.data = stand_in;
  }
  return view;
}

KernelParams params_of(const ConstTensorView& offs, const Workspace& workspace, int num_experts,
                       std::int64_t max_rows) {
  auto* header = reinterpret_cast<core::WorkspaceHeader*>(workspace.bytes.data());
  KernelParams params;
  params.offs = static_cast<const std::int32_t*>(offs.data);
  params.fault_word = reinterpret_cast<unsigned long long*>(&header->fault_word);
  params.counters = &header->counters;
  params.max_rows = max_rows;
  params.num_experts = num_experts;
  return params;
}

void map_row_operand(const ConstTensorView& a, const KernelConfig& config, TensorMaps& maps) {
  maps.a = map_rows(a, config.tile_m);
  maps.a_few = map_rows(a, kFewRows);
  maps.a_fewest = map_rows(a, kFewestRows);
}

void map_weight_operand(const ConstTensorView& b, const KernelConfig& config, TensorMaps& maps,
                        KernelParams& params) {
  if (config.b_mn_major) {
    params.b_panels = panel_copy(b.shape[2]);
    maps.b = map_weight_panels(b, config.tile_n, params.b_panels);
    maps.b_few = map_weight_panels(b, kFewColumns, params.b_panels);
  } else {
    maps.b = map_weights(b, config.tile_n);
    maps.b_few = map_weights(b, kFewColumns);
  }
}

}  // namespace moesaic::backends::cuda::launch
