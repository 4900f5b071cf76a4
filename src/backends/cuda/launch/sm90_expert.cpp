// SPDX-License-Identifier: Apache-2.0
// See sm90_expert.hpp.

#include "backends/cuda/launch/sm90_expert.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include "backends/cuda/launch/choose.hpp"
#include "backends/cuda/launch/cuda_error.hpp"
#include "backends/cuda/launch/expert_kernels.hpp"
#include "backends/cuda/launch/launch.hpp"
#include "backends/cuda/launch/row_operands.hpp"
#include "backends/cuda/launch/strides.hpp"
#include "backends/cuda/launch/tensor_maps.hpp"
#include "core/up_gate.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

class Sm90Expert final : public FusedExpert {
 public:
  Sm90Expert(const ExpertMlpProblem& problem, const DeviceInfo& device,
             const ExpertKernels& kernels)
      : problem_(problem),
        device_(device),
        layout_(part_layout(core::up_gate_layout(problem.order))),
        gathers_(problem.x_rows == XRows::indexed),
        kernels_(kernels),
        name_(implementation_name(*kernels_.up_gate)) {
    const DeviceScope scope(device.device.index);
    prepare(*kernels_.up_gate);
    prepare(*kernels_.down_gradient);
    prepare(*kernels_.weighted_down);
    prepare(*kernels_.up_gate_wgrad);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes;
  }
  [[nodiscard]] std::optional<std::string> product(const GroupedGemmProblem& gemm) const override {
    return kernels_.product(gemm);
  }
  void up_gate(const UpGateArgs& args, const Workspace& workspace,
               const Stream& stream) const override;
  void down_gradient(const DownGradientArgs& args, const Workspace& workspace,
                     const Stream& stream) const override;
  void weighted_down(const WeightedDownArgs& args, const Workspace& workspace,
                     const Stream& stream) const override;
  void up_gate_wgrad(const UpGateWgradArgs& args, const Workspace& workspace,
                     const Stream& stream) const override;

 private:
  /// What both products say, for `a` [M, contraction], and columns as the kernel counts them.
  [[nodiscard]] KernelParams describe(const Instance& instance, const ConstTensorView& offs,
                                      const Workspace& workspace, std::int64_t contraction,
                                      std::int64_t columns) const;

  ExpertMlpProblem problem_;
  DeviceInfo device_;
  PartLayout layout_;
  bool gathers_;
  ExpertKernels kernels_;
  std::string name_;
};

KernelParams Sm90Expert::describe(const Instance& instance, const ConstTensorView& offs,
                                  const Workspace& workspace, std::int64_t contraction,
                                  std::int64_t columns) const {
  KernelParams params = params_of(offs, workspace, problem_.num_experts, problem_.max_rows);
  params.rows = math::row_tile_grid<std::int32_t>(problem_.num_experts, problem_.max_rows,
                                                  static_cast<std::int32_t>(columns),
                                                  instance.config.row_shape());
  params.k = static_cast<std::int32_t>(contraction);
  params.expert.layout = layout_;
  params.expert.h = static_cast<std::int32_t>(problem_.h);
  return params;
}

void Sm90Expert::up_gate(const UpGateArgs& args, const Workspace& workspace,
                         const Stream& stream) const {
  const DeviceScope scope(device_.device.index);
  const void* stand_in = workspace.bytes.data();
  KernelParams params =
      describe(*kernels_.up_gate, args.offs, workspace, problem_.d, paired_width(problem_.h));
  TensorMaps maps{};
  if (gathers_) {
    params.gather = gather_of(args.x, args.x_rows, stand_in);
  } else {
    map_row_operand(with_address(args.x, stand_in), kernels_.up_gate->config, maps);
  }
  maps.b = map_paired_weights(args.w_up_gate, layout_, 64);
  maps.b_few = map_paired_weights(args.w_up_gate, layout_, 32);
  params.expert.h_out = args.h.data;
  params.expert.h_stride = row_stride(args.h);
  if (args.u.data != nullptr) {
    params.expert.u = args.u.data;
    params.expert.u_stride = row_stride(args.u);
  }
  launch(*kernels_.up_gate, maps, params, device_.num_sms, stream.native());
}

void Sm90Expert::down_gradient(const DownGradientArgs& args, const Workspace& workspace,
                               const Stream& stream) const {
  const DeviceScope scope(device_.device.index);
  const void* stand_in = workspace.bytes.data();
  KernelParams params =
      describe(*kernels_.down_gradient, args.offs, workspace, problem_.d, problem_.h);
  TensorMaps maps{};
  map_row_operand(with_address(args.dy, stand_in), kernels_.down_gradient->config, maps);
  map_weight_operand(args.w_down, kernels_.down_gradient->config, maps, params);
  if (args.h.data != nullptr) {
    params.expert.h_out = args.h.data;
    params.expert.h_stride = row_stride(args.h);
  }
  params.expert.u = args.du.data;
  params.expert.u_stride = row_stride(args.du);
  params.expert.saved_u = args.u.data;
  params.expert.saved_u_stride = row_stride(args.u);
  launch(*kernels_.down_gradient, maps, params, device_.num_sms, stream.native());
}

void Sm90Expert::weighted_down(const WeightedDownArgs& args, const Workspace& workspace,
                               const Stream& stream) const {
  const DeviceScope scope(device_.device.index);
  const void* stand_in = workspace.bytes.data();
  KernelParams params =
      describe(*kernels_.weighted_down, args.offs, workspace, problem_.h, problem_.d);
  params.row_weights = static_cast<const float*>(args.row_weights.data);
  params.d = args.y.data;
  params.d_row_stride = row_stride(args.y);
  params.zero_tail = problem_.tail == Tail::zero;
  TensorMaps maps{};
  map_row_operand(with_address(args.h, stand_in), kernels_.weighted_down->config, maps);
  map_weight_operand(args.w_down, kernels_.weighted_down->config, maps, params);
  maps.d = map_ragged_output(with_address(args.y, stand_in));
  launch(*kernels_.weighted_down, maps, params, device_.num_sms, stream.native());
}

void Sm90Expert::up_gate_wgrad(const UpGateWgradArgs& args, const Workspace& workspace,
                               const Stream& stream) const {
  const DeviceScope scope(device_.device.index);
  const void* stand_in = workspace.bytes.data();
  KernelParams params = params_of(args.offs, workspace, problem_.num_experts, problem_.max_rows);
  TensorMaps maps{};
  map_weight_gradient(with_address(args.du, stand_in), problem_.d, args.dw_up_gate,
                      problem_.accumulate_wgrad, kernels_.up_gate_wgrad->config, maps, params);
  params.gather = gather_of(args.x, args.x_rows, stand_in);
  launch(*kernels_.up_gate_wgrad, maps, params, device_.num_sms, stream.native());
}

}  // namespace

std::unique_ptr<const FusedExpert> make_sm90_expert(
    const ExpertMlpProblem& problem, const DeviceInfo& device,
    const std::optional<std::string>& implementation) {
  if (!supports_expert(problem, device)) {
    return nullptr;
  }
  const auto kernels = ExpertKernels::choose(problem, device, implementation);
  return kernels ? std::make_unique<Sm90Expert>(problem, device, *kernels) : nullptr;
}

}  // namespace moesaic::backends::cuda::launch
