// SPDX-License-Identifier: Apache-2.0
// See activation.hpp.

#include "backends/cuda/kernels/activation_kernels.cuh"
#include "backends/cuda/launch/activation.hpp"
#include "backends/cuda/launch/kernel_launch.hpp"
#include "backends/cuda/launch/strides.hpp"
#include "core/up_gate.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr int kThreadsPerCta = 256;
constexpr int kCtasPerSm = 8;

RoutedRows routed_rows(const ConstTensorView& offs, std::int64_t max_rows) {
  return {static_cast<const std::int32_t*>(offs.data), static_cast<std::int32_t>(offs.shape[0]),
          max_rows};
}

ActivationParams params(const ActivationArgs& args) {
  ActivationParams p{};
  p.rows = routed_rows(args.offs, args.u.shape[0]);
  p.h = static_cast<std::int32_t>(args.u.shape[1] / 2);
  p.layout = part_layout(core::up_gate_layout(args.order));
  p.u = args.u.data;
  p.u_stride = row_stride(args.u);
  p.h_out = args.h.data;
  p.h_stride = row_stride(args.h);
  p.row_weights = static_cast<const float*>(args.row_weights.data);
  return p;
}

template <class Params>
void launch(void (*kernel)(Params), const char* name, const Params& p, int num_sms, Device device,
            const Stream& stream) {
  const DeviceScope scope(device.index);
  launch_kernel(name, kernel, {static_cast<unsigned>(num_sms * kCtasPerSm), kThreadsPerCta},
                static_cast<cudaStream_t>(stream.native()), p);
}

template <bool kBackward>
void launch_activation(const ActivationParams& p, const ActivationArgs& args,
                       const Stream& stream) {
  launch(p.row_weights == nullptr ? activation_kernel<kBackward, false>
                                  : activation_kernel<kBackward, true>,
         "activation_kernel", p, args.threads, args.u.device, stream);
}

}  // namespace

void swiglu(const ActivationArgs& args, const Stream& stream) {
  launch_activation<false>(params(args), args, stream);
}

void dswiglu(const ActivationArgs& args, const Stream& stream) {
  ActivationParams p = params(args);
  p.dh = args.dh.data;
  p.dh_stride = row_stride(args.dh);
  p.du = args.du.data;
  p.du_stride = row_stride(args.du);
  p.drow_weights = static_cast<float*>(args.drow_weights.data);
  p.zero_tail = args.tail == Tail::zero;
  launch_activation<true>(p, args, stream);
}

void scale_rows(const ScaleRowsArgs& args, const Stream& stream) {
  ScaleRowsParams p{};
  p.rows = routed_rows(args.offs, args.y.shape[0]);
  p.d = static_cast<std::int32_t>(args.y.shape[1]);
  p.sums = static_cast<const float*>(args.sums.data);
  p.sums_stride = row_stride(args.sums);
  p.row_weights = static_cast<const float*>(args.row_weights.data);
  p.y = args.y.data;
  p.y_stride = row_stride(args.y);
  p.zero_tail = args.tail == Tail::zero;
  launch(scale_rows_kernel, "scale_rows_kernel", p, args.threads, args.y.device, stream);
}

void take_rows(const TakeRowsArgs& args, const Stream& stream) {
  TakeRowsParams p{};
  p.rows = routed_rows(args.offs, args.rows.shape[0]);
  const std::int64_t element_bytes = size_bytes(args.x.dtype);
  p.row_bytes = args.x.shape[1] * element_bytes;
  p.x = args.x.data;
  p.x_rows = static_cast<const std::int32_t*>(args.x_rows.data);
  p.num_rows = static_cast<std::int32_t>(args.x.shape[0]);
  p.x_row_bytes = row_stride(args.x) * element_bytes;
  p.taken = args.rows.data;
  p.taken_row_bytes = row_stride(args.rows) * element_bytes;
  launch(take_rows_kernel, "take_rows_kernel", p, args.threads, args.rows.device, stream);
}

}  // namespace moesaic::backends::cuda::launch
