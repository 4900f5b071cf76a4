// SPDX-License-Identifier: Apache-2.0
// See sm90_gemm.hpp.

#include "backends/cuda/launch/sm90_gemm.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/launch.hpp"
#include "backends/cuda/launch/row_operands.hpp"
#include "backends/cuda/launch/tensor_maps.hpp"

namespace moesaic::backends::cuda::launch {

Sm90Gemm::Sm90Gemm(const PlanRequest& request, const Instance& instance)
    : GroupedGemmImpl(request.problem, request.device),
      instance_(instance),
      name_(implementation_name(instance_)) {
  const DeviceScope scope(request.device.device.index);
  prepare(instance_);
}

void Sm90Gemm::enqueue(const GroupedGemmArgs& args, const Workspace& workspace,
                       const Stream& stream, std::int64_t done_rows) const {
  const DeviceScope scope(device().device.index);
  KernelParams params = params_of(args.offs, workspace, problem().num_experts, problem().max_rows);
  params.done_rows = done_rows;
  params.d = args.d.data;
  const TensorMaps maps = problem().pass == Pass::wgrad ? describe_wgrad(args, workspace, params)
                                                        : describe_rows(args, workspace, params);
  launch(instance_, maps, params, device().num_sms, stream.native());
}

TensorMaps Sm90Gemm::describe_rows(const GroupedGemmArgs& args, const Workspace& workspace,
                                   KernelParams& params) const {
  const KernelConfig& config = instance_.config;
  const ConstTensorView a = with_address(args.a.qdata, workspace.bytes.data());
  const ConstTensorView& b = args.b.qdata;
  const ConstTensorView d = with_address(args.d, workspace.bytes.data());
  params.rows =
      math::row_tile_grid<std::int32_t>(problem().num_experts, problem().max_rows,
                                        static_cast<std::int32_t>(d.shape[1]), config.row_shape());
  params.k = static_cast<std::int32_t>(a.shape[1]);
  // What a batch has computed, it has stored, tail and all.
  params.zero_tail = problem().tail == Tail::zero && params.done_rows == 0;
  params.d_row_stride = problem().max_rows > 1 ? d.stride[0] : d.shape[1];
  TensorMaps maps{};
  map_row_operand(a, config, maps);
  map_weight_operand(b, config, maps, params);
  maps.d = map_ragged_output(d);
  return maps;
}

TensorMaps Sm90Gemm::describe_wgrad(const GroupedGemmArgs& args, const Workspace& workspace,
                                    KernelParams& params) const {
  const KernelConfig& config = instance_.config;
  const bool enk = problem().weights == WeightStorage::enk;
  // d's lines are columns of the left operand, its columns those of the right one.
  const ConstTensorView left =
      with_address(enk ? args.a.qdata : args.b.qdata, workspace.bytes.data());
  const ConstTensorView right =
      with_address(enk ? args.b.qdata : args.a.qdata, workspace.bytes.data());
  TensorMaps maps{};
  map_weight_gradient(left, right.shape[1], args.d, problem().accumulate, config, maps, params);
  map_right_operand(right, config, maps, params);
  return maps;
}

core::WorkspaceHeader read_device_header(const Workspace& workspace, const Stream& stream) {
  const DeviceScope scope(workspace.device.index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  core::WorkspaceHeader header;
  check_cuda(cudaMemcpyAsync(&header, workspace.bytes.data(), sizeof(header),
                             cudaMemcpyDeviceToHost, native),
             "cudaMemcpyAsync(workspace header)");
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize");
  return header;
}

void clear_device_fault(const Workspace& workspace, const Stream& stream) {
  const DeviceScope scope(workspace.device.index);
  const auto native = static_cast<cudaStream_t>(stream.native());
  check_cuda(cudaMemsetAsync(workspace.bytes.data() + offsetof(core::WorkspaceHeader, fault_word),
                             0, sizeof(core::WorkspaceHeader::fault_word), native),
             "cudaMemsetAsync(fault word)");
  check_cuda(cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

}  // namespace moesaic::backends::cuda::launch
