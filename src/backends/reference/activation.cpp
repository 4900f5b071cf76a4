// SPDX-License-Identifier: Apache-2.0
// SwiGLU row by row through math/activation.hpp.

#include "backends/reference/activation.hpp"

#include "backends/host_rows.hpp"
#include "core/exact.hpp"
#include "core/up_gate.hpp"
#include "math/activation.hpp"

namespace moesaic::backends::reference {
namespace {

using core::load;
using core::store;

template <class T>
void forward_row(const ActivationArgs& args, math::UpGateLayout layout, std::int64_t index) {
  const std::int64_t h = args.h.shape[1];
  const T* u = row<T>(args.u, index);
  const double weight = weight_of(args.row_weights, index);
  T* out = row<T>(args.h, index);
  for (std::int64_t j = 0; j < h; ++j) {
    const double up = load(u[math::up_column(layout, j, h)]);
    const double gate = load(u[math::gate_column(layout, j, h)]);
    store(weight * math::swiglu(up, gate), out[j]);
  }
}

template <class T>
void backward_row(const ActivationArgs& args, math::UpGateLayout layout, std::int64_t index) {
  const std::int64_t h = args.dh.shape[1];
  const T* u = row<T>(args.u, index);
  const T* dh = row<T>(args.dh, index);
  const double weight = weight_of(args.row_weights, index);
  T* du = args.du.data == nullptr ? nullptr : row<T>(args.du, index);
  T* again = args.h.data == nullptr ? nullptr : row<T>(args.h, index);
  double dweight = 0;
  for (std::int64_t j = 0; j < h; ++j) {
    const std::int64_t up_at = math::up_column(layout, j, h);
    const std::int64_t gate_at = math::gate_column(layout, j, h);
    const double up = load(u[up_at]);
    const double gate = load(u[gate_at]);
    const double value = math::swiglu(up, gate);
    if (du != nullptr) {
      const math::SwigluGrad<double> grad = math::dswiglu(up, gate, weight * load(dh[j]));
      store(grad.dup, du[up_at]);
      store(grad.dgate, du[gate_at]);
    }
    if (again != nullptr) {
      store(weight * value, again[j]);
    }
    dweight += load(dh[j]) * value;
  }
  if (args.drow_weights.data != nullptr) {
    static_cast<float*>(args.drow_weights.data)[index] = static_cast<float>(dweight);
  }
}

template <class T>
void scale_row(const ScaleRowsArgs& args, std::int64_t index) {
  const auto* sums = row<float>(args.sums, index);
  const double weight = weight_of(args.row_weights, index);
  T* y = row<T>(args.y, index);
  for (std::int64_t j = 0; j < args.y.shape[1]; ++j) {
    store(weight * sums[j], y[j]);
  }
}

template <class Row>
void for_each_row(const HostSegments& segments, [[maybe_unused]] int threads, const Row& body) {
  for (const math::RowRange rows : segments.experts) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t index = rows.begin; index < rows.end; ++index) {
      body(index);
    }
  }
}

}  // namespace

void activation_forward(const ActivationArgs& args) {
  const auto layout = core::up_gate_layout(args.order);
  const HostSegments segments(args.offs, args.u.shape[0]);
  for_each_row(segments, args.threads, [&](std::int64_t index) {
    args.u.dtype == DType::f32 ? forward_row<float>(args, layout, index)
                               : forward_row<BFloat16>(args, layout, index);
  });
}

void activation_backward(const ActivationArgs& args) {
  const auto layout = core::up_gate_layout(args.order);
  const HostSegments segments(args.offs, args.u.shape[0]);
  for_each_row(segments, args.threads, [&](std::int64_t index) {
    args.u.dtype == DType::f32 ? backward_row<float>(args, layout, index)
                               : backward_row<BFloat16>(args, layout, index);
  });
  if (args.drow_weights.data != nullptr && args.tail == Tail::zero) {
    zero_elements(args.drow_weights, segments.tail_begin, args.u.shape[0]);
  }
}

void scale_rows(const ScaleRowsArgs& args) {
  const HostSegments segments(args.offs, args.y.shape[0]);
  for_each_row(segments, args.threads, [&](std::int64_t index) {
    args.y.dtype == DType::f32 ? scale_row<float>(args, index) : scale_row<BFloat16>(args, index);
  });
  if (args.tail == Tail::zero) {
    zero_rows(args.y, segments.tail_begin, args.y.shape[0]);
  }
}

void take_rows(const TakeRowsArgs& args) {
  const HostSegments segments(args.offs, args.rows.shape[0]);
  for_each_row(segments, args.threads, [&](std::int64_t index) { take_row(args, index); });
}

}  // namespace moesaic::backends::reference
