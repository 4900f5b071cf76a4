// SPDX-License-Identifier: Apache-2.0
// Float SwiGLU in blocks of columns: widen to float, one branch-free loop that vectorizes, narrow
// again.

#include "backends/onednn/activation.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "backends/host_rows.hpp"
#include "core/up_gate.hpp"
#include "math/activation.hpp"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define MOESAIC_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MOESAIC_CLONES
#endif

namespace moesaic::backends::onednn {
namespace {

constexpr std::int64_t kBlock = 256;
using Block = std::array<float, kBlock>;

/// exp(x) for x <= 0, within two ulp, subnormal results included: 2^n times a degree-six polynomial
/// in the remainder (Taylor, |r| <= ln2 / 2). NaN stays NaN.
struct VectorExp {
  float operator()(float x) const {
    constexpr float kLog2E = 1.44269504F;
    constexpr float kLn2High = 0.693145752F;
    constexpr float kLn2Low = 1.42860677e-6F;
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    const float clamped = x < -104.0F ? -104.0F : x;
    const float shifted = clamped * kLog2E + kRound;
    const float n = shifted - kRound;
    const float r = (clamped - n * kLn2High) - n * kLn2Low;
    float p = 1.0F / 720.0F;
    p = p * r + 1.0F / 120.0F;
    p = p * r + 1.0F / 24.0F;
    p = p * r + 1.0F / 6.0F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    // Two factors, so that 2^-150 is reached without leaving the normal exponents.
    const auto exponent =
        std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
    const std::int32_t half = exponent / 2;
    const float low = std::bit_cast<float>((half + 127) << 23);
    const float high = std::bit_cast<float>((exponent - half + 127) << 23);
    return p * low * high;
  }
};

MOESAIC_CLONES void swiglu_block(const float* up, const float* gate, float* h, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    h[j] = math::swiglu(up[j], gate[j], VectorExp{});
  }
}

MOESAIC_CLONES void dswiglu_block(const float* up, const float* gate, const float* dh, float weight,
                                  float* dup, float* dgate, float* h, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    const math::SwigluGrad<float> grad = math::dswiglu(up[j], gate[j], weight * dh[j], VectorExp{});
    dup[j] = grad.dup;
    dgate[j] = grad.dgate;
    h[j] = math::swiglu(up[j], gate[j], VectorExp{});
  }
}

MOESAIC_CLONES void scale(const float* from, float weight, float* to, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    to[j] = weight * from[j];
  }
}

/// In lanes that a compiler keeps in vectors, so in one order on one machine.
MOESAIC_CLONES double dot(const float* a, const float* b, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  std::int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[static_cast<std::size_t>(lane)] += a[j + lane] * b[j + lane];
    }
  }
  double sum = 0;
  for (const float lane : lanes) {
    sum += lane;
  }
  for (; j < count; ++j) {
    sum += static_cast<double>(a[j]) * b[j];
  }
  return sum;
}

MOESAIC_CLONES void widen(const BFloat16* from, std::int64_t step, float* to, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    to[j] = static_cast<float>(from[j * step]);
  }
}
void widen(const float* from, std::int64_t step, float* to, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    to[j] = from[j * step];
  }
}

template <class T>
MOESAIC_CLONES void narrow(const float* from, T* to, std::int64_t step, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    to[j * step] = T(from[j]);
  }
}

/// Where up and gate of columns [first, first + count) lie in a row of u.
struct Columns {
  std::int64_t up, gate, step;
  Columns(UpGateOrder order, std::int64_t first, std::int64_t h) {
    const math::UpGateLayout layout = core::up_gate_layout(order);
    up = math::up_column(layout, first, h);
    gate = math::gate_column(layout, first, h);
    step = layout == math::UpGateLayout::interleaved ? 2 : 1;
  }
};

template <class T>
void forward_row(const ActivationArgs& args, std::int64_t index) {
  const std::int64_t width = args.h.shape[1];
  const float weight = weight_of(args.row_weights, index);
  Block up, gate, h;
  for (std::int64_t first = 0; first < width; first += kBlock) {
    const std::int64_t count = std::min(kBlock, width - first);
    const Columns columns(args.order, first, width);
    const T* u = row<T>(args.u, index);
    widen(u + columns.up, columns.step, up.data(), count);
    widen(u + columns.gate, columns.step, gate.data(), count);
    swiglu_block(up.data(), gate.data(), h.data(), count);
    if (args.row_weights.data != nullptr) {
      scale(h.data(), weight, h.data(), count);
    }
    narrow(h.data(), row<T>(args.h, index) + first, 1, count);
  }
}

template <class T>
void backward_row(const ActivationArgs& args, std::int64_t index) {
  const std::int64_t width = args.dh.shape[1];
  const float weight = weight_of(args.row_weights, index);
  Block up, gate, dh, dup, dgate, h;
  double dweight = 0;
  for (std::int64_t first = 0; first < width; first += kBlock) {
    const std::int64_t count = std::min(kBlock, width - first);
    const Columns columns(args.order, first, width);
    const T* u = row<T>(args.u, index);
    widen(u + columns.up, columns.step, up.data(), count);
    widen(u + columns.gate, columns.step, gate.data(), count);
    widen(row<T>(args.dh, index) + first, 1, dh.data(), count);
    dswiglu_block(up.data(), gate.data(), dh.data(), weight, dup.data(), dgate.data(), h.data(),
                  count);
    if (args.du.data != nullptr) {
      narrow(dup.data(), row<T>(args.du, index) + columns.up, columns.step, count);
      narrow(dgate.data(), row<T>(args.du, index) + columns.gate, columns.step, count);
    }
    if (args.drow_weights.data != nullptr) {
      dweight += dot(dh.data(), h.data(), count);
    }
    if (args.h.data != nullptr) {
      if (args.row_weights.data != nullptr) {
        scale(h.data(), weight, h.data(), count);
      }
      narrow(h.data(), row<T>(args.h, index) + first, 1, count);
    }
  }
  if (args.drow_weights.data != nullptr) {
    static_cast<float*>(args.drow_weights.data)[index] = static_cast<float>(dweight);
  }
}

template <class T>
void scale_row(const ScaleRowsArgs& args, std::int64_t index) {
  const std::int64_t width = args.y.shape[1];
  const float weight = weight_of(args.row_weights, index);
  Block scaled;
  for (std::int64_t first = 0; first < width; first += kBlock) {
    const std::int64_t count = std::min(kBlock, width - first);
    scale(row<float>(args.sums, index) + first, weight, scaled.data(), count);
    narrow(scaled.data(), row<T>(args.y, index) + first, 1, count);
  }
}

template <class Row>
void for_each_row(const HostSegments& segments, int threads, const Row& body) {
  if (segments.fault_word == 0) {  // good segments lie end to end
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t index = 0; index < segments.tail_begin; ++index) {
      body(index);
    }
    return;
  }
  for (const math::RowRange rows : segments.experts) {  // these may overlap
    for (std::int64_t index = rows.begin; index < rows.end; ++index) {
      body(index);
    }
  }
}

}  // namespace

void activation_forward(const ActivationArgs& args) {
  const HostSegments segments(args.offs, args.u.shape[0]);
  for_each_row(segments, args.threads, [&](std::int64_t index) {
    args.u.dtype == DType::f32 ? forward_row<float>(args, index)
                               : forward_row<BFloat16>(args, index);
  });
}

void activation_backward(const ActivationArgs& args) {
  const HostSegments segments(args.offs, args.u.shape[0]);
  for_each_row(segments, args.threads, [&](std::int64_t index) {
    args.u.dtype == DType::f32 ? backward_row<float>(args, index)
                               : backward_row<BFloat16>(args, index);
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

}  // namespace moesaic::backends::onednn
