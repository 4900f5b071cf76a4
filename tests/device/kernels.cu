// SPDX-License-Identifier: Apache-2.0
// See kernels.hpp.

#include <cuda_bf16.h>

#include "device/kernels.hpp"

namespace moesaic::device_tests {
namespace {

constexpr int kBlock = 256;
constexpr int kGrid = 2048;

__device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x;
}
__device__ std::int64_t index_step() { return static_cast<std::int64_t>(gridDim.x) * kBlock; }

__device__ std::uint32_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return static_cast<std::uint32_t>(x);
}

__global__ void ternary_kernel(__nv_bfloat16* p, std::int64_t count, std::uint64_t seed,
                               std::uint32_t threshold) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::uint32_t r = mix(seed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(i));
    const float sign = (r & 1U) != 0 ? 1.0F : -1.0F;
    p[i] = __float2bfloat16(r < threshold ? sign : 0.0F);
  }
}

__global__ void normal_kernel(__nv_bfloat16* p, std::int64_t count, std::uint64_t seed,
                              float scale) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const std::uint64_t at = seed * 0x9E3779B97F4A7C15ULL + 2 * static_cast<std::uint64_t>(i);
    const float u = (static_cast<float>(mix(at)) + 1.0F) * 2.3283064e-10F;
    const float v = static_cast<float>(mix(at + 1)) * 2.3283064e-10F;
    p[i] = __float2bfloat16(scale * sqrtf(-2.0F * logf(fminf(u, 1.0F))) * cospif(2.0F * v));
  }
}

template <class T>
__global__ void value_kernel(T* p, std::int64_t count, T value) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) p[i] = value;
}

__device__ float value_at(const void* bf16, std::int64_t index) {
  return __bfloat162float(static_cast<const __nv_bfloat16*>(bf16)[index]);
}

struct Segment {
  std::int64_t begin, end;
};
__device__ Segment segment_of(const PlainProduct& p, int expert) {
  const std::int64_t begin = expert == 0 ? 0 : p.offs[expert - 1];
  const std::int64_t end = p.offs[expert];
  const bool valid = 0 <= begin && begin <= end && end <= p.rows;
  return valid ? Segment{begin, end} : Segment{0, 0};
}

template <class Out>
__global__ void plain_rows_kernel(const PlainProduct p) {
  const bool forward = p.pass == Pass::forward;
  const std::int64_t width = forward ? p.n : p.k;
  const std::int64_t contracted = forward ? p.k : p.n;
  const std::int64_t lines = p.enk ? p.n : p.k;  // of one expert's weights
  for (std::int64_t i = first_index(); i < p.rows * width; i += index_step()) {
    const std::int64_t row = i / width, column = i % width;
    int owner = -1;
    for (int e = 0; e < p.experts; ++e) {
      const Segment segment = segment_of(p, e);
      if (segment.begin <= row && row < segment.end) owner = e;
    }
    if (owner < 0) continue;
    float sum = 0;
    for (std::int64_t c = 0; c < contracted; ++c) {
      const std::int64_t n = forward ? column : c, k = forward ? c : column;
      const std::int64_t at = p.enk ? n * p.b_stride + k : k * p.b_stride + n;
      sum += value_at(p.a, row * p.a_stride + c) * value_at(p.b, owner * lines * p.b_stride + at);
    }
    static_cast<Out*>(p.d)[row * p.d_stride + column] = static_cast<Out>(sum);
  }
}

template <class Out>
__global__ void plain_weights_kernel(const PlainProduct p) {
  const std::int64_t lines = p.enk ? p.n : p.k, columns = p.enk ? p.k : p.n;
  for (std::int64_t i = first_index(); i < p.experts * lines * columns; i += index_step()) {
    const std::int64_t column = i % columns, line = i / columns % lines;
    const int expert = static_cast<int>(i / columns / lines);
    const std::int64_t n = p.enk ? line : column, k = p.enk ? column : line;
    const Segment segment = segment_of(p, expert);
    Out& d = static_cast<Out*>(p.d)[(expert * lines + line) * p.d_stride + column];
    float sum = p.accumulate ? static_cast<float>(d) : 0.0F;
    for (std::int64_t row = segment.begin; row < segment.end; ++row) {
      sum += value_at(p.a, row * p.a_stride + n) * value_at(p.b, row * p.b_stride + k);
    }
    d = static_cast<Out>(sum);
  }
}

template <class Out>
void plain(const PlainProduct& p, cudaStream_t stream) {
  if (p.pass == Pass::wgrad) {
    plain_weights_kernel<Out><<<kGrid, kBlock, 0, stream>>>(p);
  } else {
    plain_rows_kernel<Out><<<kGrid, kBlock, 0, stream>>>(p);
  }
}

__global__ void differences_kernel(const uint4* a, const uint4* b, std::int64_t count,
                                   Differences* result) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const uint4 x = a[i], y = b[i];
    if (x.x == y.x && x.y == y.y && x.z == y.z && x.w == y.w) continue;
    const auto* left = reinterpret_cast<const unsigned char*>(a + i);
    const auto* right = reinterpret_cast<const unsigned char*>(b + i);
    for (unsigned byte = 0; byte < 16; ++byte) {
      if (left[byte] == right[byte]) continue;
      atomicAdd(&result->count, 1ULL);
      atomicMin(&result->first_byte, static_cast<unsigned long long>(i) * 16 + byte);
    }
  }
}

__global__ void late_offsets_kernel(std::int32_t* to, const std::int32_t* from, int count,
                                    long long cycles) {
  cudaTriggerProgrammaticLaunchCompletion();
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) to[i] = from[i];
}

__global__ void spin_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

}  // namespace

void fill_ternary(void* bf16, std::int64_t count, std::uint64_t seed, std::uint32_t threshold,
                  cudaStream_t stream) {
  ternary_kernel<<<kGrid, kBlock, 0, stream>>>(static_cast<__nv_bfloat16*>(bf16), count, seed,
                                               threshold);
}

void fill_normal(void* bf16, std::int64_t count, std::uint64_t seed, float scale,
                 cudaStream_t stream) {
  normal_kernel<<<kGrid, kBlock, 0, stream>>>(static_cast<__nv_bfloat16*>(bf16), count, seed,
                                              scale);
}

void fill_value(void* data, DType dtype, std::int64_t count, float value, cudaStream_t stream) {
  if (dtype == DType::f32) {
    value_kernel<<<kGrid, kBlock, 0, stream>>>(static_cast<float*>(data), count, value);
  } else {
    value_kernel<<<kGrid, kBlock, 0, stream>>>(static_cast<__nv_bfloat16*>(data), count,
                                               __float2bfloat16(value));
  }
}

void fill_unwritten(void* data, std::int64_t bytes, cudaStream_t stream) {
  constexpr std::uint16_t kPayload = 0x7FC1;
  value_kernel<<<kGrid, kBlock, 0, stream>>>(static_cast<std::uint16_t*>(data), bytes / 2,
                                             kPayload);
}

void plain_product(const PlainProduct& product, cudaStream_t stream) {
  if (product.f32_out) {
    plain<float>(product, stream);
  } else {
    plain<__nv_bfloat16>(product, stream);
  }
}

void count_differences(const void* a, const void* b, std::int64_t bytes, Differences* result,
                       cudaStream_t stream) {
  differences_kernel<<<kGrid, kBlock, 0, stream>>>(
      static_cast<const uint4*>(a), static_cast<const uint4*>(b), bytes / 16, result);
}

void write_offsets_late(std::int32_t* to, const std::int32_t* from, int count, long long cycles,
                        cudaStream_t stream) {
  late_offsets_kernel<<<1, kBlock, 0, stream>>>(to, from, count, cycles);
}

void spin(long long cycles, cudaStream_t stream) { spin_kernel<<<1, 1, 0, stream>>>(cycles); }

}  // namespace moesaic::device_tests
