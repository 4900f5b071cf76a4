// SPDX-License-Identifier: Apache-2.0
// See activation.hpp.

#include "backends/cuda/kernels/activation_kernels.cuh"
#include "backends/cuda/launch/activation.hpp"
#include "backends/cuda/launch/cuda_error.hpp"
#include "core/up_gate.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr int kThreadsPerCta = 256;
constexpr int kCtasPerSm = 8;

std::int64_t row_stride(const ConstTensorView& matrix) {
  return matrix.shape[0] > 1 ? matrix.stride[0] : matrix.shape[1];
}

ActivationParams params(const ActivationArgs& args) {
  ActivationParams p{};
  p.offs = static_cast<const std::int32_t*>(args.offs.data);
  p.num_experts = static_cast<std::int32_t>(args.offs.shape[0]);
  p.max_rows = args.u.shape[0];
  p.h = static_cast<std::int32_t>(args.u.shape[1] / 2);
  p.layout = part_layout(core::up_gate_layout(args.order));
  p.u = args.u.data;
  p.u_stride = row_stride(args.u);
  p.h_out = args.h.data;
  p.h_stride = row_stride(args.h);
  return p;
}

template <bool kBackward>
void launch(const ActivationParams& p, const ActivationArgs& args, const Stream& stream) {
  const DeviceScope scope(args.u.device.index);
  activation_kernel<kBackward><<<static_cast<unsigned>(args.threads * kCtasPerSm), kThreadsPerCta,
                                 0, static_cast<cudaStream_t>(stream.native())>>>(p);
  check_cuda(cudaGetLastError(), "activation_kernel");
}

}  // namespace

void swiglu(const ActivationArgs& args, const Stream& stream) {
  launch<false>(params(args), args, stream);
}

void dswiglu(const ActivationArgs& args, const Stream& stream) {
  ActivationParams p = params(args);
  p.dh = args.dh.data;
  p.dh_stride = row_stride(args.dh);
  p.du = args.du.data;
  p.du_stride = row_stride(args.du);
  launch<true>(p, args, stream);
}

}  // namespace moesaic::backends::cuda::launch
