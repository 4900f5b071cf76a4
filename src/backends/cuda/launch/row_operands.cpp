// SPDX-License-Identifier: Apache-2.0
// See row_operands.hpp.

#include "backends/cuda/launch/row_operands.hpp"

#include "backends/cuda/launch/strides.hpp"
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
    maps.b = map_weight_panels(b, config.b_box_columns(), params.b_panels);
    maps.b_few = map_weight_panels(b, kFewColumns, params.b_panels);
  } else {
    maps.b = map_weights(b, config.b_box_columns());
    maps.b_few = map_weights(b, kFewColumns);
  }
}

void map_weight_gradient(const ConstTensorView& left, std::int64_t right_columns,
                         const TensorView& dw, bool accumulate, const KernelConfig& config,
                         TensorMaps& maps, KernelParams& params) {
  params.weights = math::weight_tile_grid<std::int32_t>(
      params.num_experts, params.max_rows, static_cast<std::int32_t>(left.shape[1]),
      static_cast<std::int32_t>(right_columns), config.tile_m, config.tile_n, kBlockK,
      config.group_m);
  params.accumulate = accumulate;
  params.a_panels = panel_copy(left.shape[1]);
  params.d = dw.data;
  params.d_row_stride = dw.stride[1];
  params.d_expert_stride = dw.stride[0];
  maps.a = map_ragged_panels(left, config.tile_m, params.a_panels);
  maps.d = map_weight_output(dw);
}

void map_right_operand(const ConstTensorView& right, const KernelConfig& config, TensorMaps& maps,
                       KernelParams& params) {
  params.b_panels = panel_copy(right.shape[1]);
  maps.b = map_ragged_panels(right, config.b_box_columns(), params.b_panels);
  maps.b_few = map_ragged_panels(right, config.tile_n / 2, params.b_panels);
}

GatherParams gather_of(const ConstTensorView& x, const ConstTensorView& x_rows,
                       const void* stand_in) {
  GatherParams gather;
  gather.x = with_address(x, stand_in).data;
  gather.x_rows = static_cast<const std::int32_t*>(x_rows.data);
  gather.x_row_bytes = row_stride(x) * size_bytes(x.dtype);
  gather.num_rows = static_cast<std::int32_t>(x.shape[0]);
  gather.columns = static_cast<std::int32_t>(x.shape[1]);
  return gather;
}

}  // namespace moesaic::backends::cuda::launch
