// SPDX-License-Identifier: Apache-2.0
// See widened.hpp. The operands' copies live in the product's scratch, never longer than the call.

#include "backends/onednn/widened.hpp"

#include "math/integer.hpp"

namespace moesaic::backends::onednn {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t float_bytes(std::int64_t rows, std::int64_t columns) {
  return math::round_up<std::int64_t>(rows * columns * 4, kAlignment);
}

/// to[row][column], dense, from any strides.
void widen(const BFloat16* from, std::int64_t row_stride, std::int64_t column_stride,
           std::int64_t rows, std::int64_t columns, float* to, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
  for (std::int64_t row = 0; row < rows; ++row) {
    const BFloat16* line = from + row * row_stride;
    for (std::int64_t column = 0; column < columns; ++column) {
      to[row * columns + column] = static_cast<float>(line[column * column_stride]);
    }
  }
}

template <class Out>
void narrow(const MatmulSpec& spec, const float* from, Out* to) {
#pragma omp parallel for num_threads(spec.threads) schedule(static) if (spec.threads > 1)
  for (std::int64_t row = 0; row < spec.m; ++row) {
    Out* line = to + row * spec.d_row_stride;
    for (std::int64_t column = 0; column < spec.n; ++column) {
      const float sum = from[row * spec.n + column];
      line[column] = Out(spec.accumulate ? static_cast<float>(line[column]) + sum : sum);
    }
  }
}

MatmulSpec dense_f32(const MatmulSpec& spec) {
  MatmulSpec dense;
  dense.m = spec.m;
  dense.n = spec.n;
  dense.k = spec.k;
  dense.ab_dtype = dense.d_dtype = DType::f32;
  dense.a_row_stride = spec.k;
  dense.b_row_stride = dense.d_row_stride = spec.n;
  dense.threads = spec.threads;
  return dense;
}

class WidenedMatmul final : public Matmul {
 public:
  explicit WidenedMatmul(const MatmulSpec& spec) : spec_(spec), inner_(compile(dense_f32(spec))) {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return static_cast<std::size_t>(float_bytes(spec_.m, spec_.k) + b_bytes() +
                                    float_bytes(spec_.m, spec_.n)) +
           inner_->scratch_bytes();
  }

  void run(const void* a, const void* b, void* d, std::byte* scratch) const override {
    auto* wide_a = reinterpret_cast<float*>(scratch);
    std::byte* next = scratch + float_bytes(spec_.m, spec_.k);
    auto* wide_b = reinterpret_cast<float*>(next);
    next += b_bytes();
    auto* wide_d = reinterpret_cast<float*>(next);
    next += float_bytes(spec_.m, spec_.n);
    for (std::int64_t i = 0; i < spec_.batch; ++i) {
      widen(static_cast<const BFloat16*>(a) + i * spec_.a_batch_stride, spec_.a_row_stride,
            spec_.a_column_stride, spec_.m, spec_.k, wide_a, spec_.threads);
      const float* factor = static_cast<const float*>(b);  // packed
      if (spec_.packed_for_m == 0) {
        widen(static_cast<const BFloat16*>(b) + i * spec_.b_batch_stride, spec_.b_row_stride,
              spec_.b_column_stride, spec_.k, spec_.n, wide_b, spec_.threads);
        factor = wide_b;
      }
      inner_->run(wide_a, factor, wide_d, next);
      if (spec_.d_dtype == DType::f32) {
        narrow(spec_, wide_d, static_cast<float*>(d) + i * spec_.d_batch_stride);
      } else {
        narrow(spec_, wide_d, static_cast<BFloat16*>(d) + i * spec_.d_batch_stride);
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t b_bytes() const {
    return spec_.packed_for_m > 0 ? 0 : float_bytes(spec_.k, spec_.n);
  }

  MatmulSpec spec_;
  std::shared_ptr<const Matmul> inner_;
};

}  // namespace

std::shared_ptr<const Matmul> compile_widened(const MatmulSpec& spec) {
  return std::make_shared<WidenedMatmul>(spec);
}

std::size_t widened_packed_bytes(const MatmulSpec& spec) {
  return static_cast<std::size_t>(float_bytes(spec.k, spec.n));
}

void pack_widened(const MatmulSpec& spec, const void* strided_b, void* packed_b) {
  widen(static_cast<const BFloat16*>(strided_b), spec.b_row_stride, spec.b_column_stride, spec.k,
        spec.n, static_cast<float*>(packed_b), 1);
}

}  // namespace moesaic::backends::onednn
