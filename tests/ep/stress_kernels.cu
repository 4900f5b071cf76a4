// SPDX-License-Identifier: Apache-2.0
// See stress_kernels.hpp.

#include <cuda_bf16.h>

#include <cuda/ptx>
#include <type_traits>

#include "ep/ranks.hpp"
#include "ep/stress_kernels.hpp"

namespace moesaic::ep_tests {
namespace {

constexpr int kThreads = 256, kBlocks = 512;

__device__ std::uint32_t mixed(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  std::uint32_t x = a * 2654435761u ^ b * 2246822519u ^ c * 3266489917u ^ d * 668265263u;
  x = (x ^ (x >> 15)) * 2246822519u;
  x = (x ^ (x >> 13)) * 3266489917u;
  return x ^ (x >> 16);
}

/// 1 to 16.
__device__ int value_of(RowPattern pattern, std::int64_t token, std::int64_t j) {
  return 1 +
         static_cast<int>(mixed(static_cast<std::uint32_t>(pattern.iteration),
                                static_cast<std::uint32_t>(pattern.rank),
                                static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(j)) %
                          16);
}

__device__ std::int64_t first() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t step() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__global__ void fill_kernel(std::int32_t* ids, __nv_bfloat16* x, RowPattern pattern,
                            StressShape shape) {
  for (std::int64_t i = first(); i < shape.tokens * shape.topk; i += step()) {
    const std::uint32_t random =
        mixed(static_cast<std::uint32_t>(pattern.iteration) + 77u,
              static_cast<std::uint32_t>(pattern.rank), static_cast<std::uint32_t>(i), 5u);
    ids[i] =
        random % 10 == 0
            ? -1
            : static_cast<std::int32_t>((random / 10) % static_cast<std::uint32_t>(shape.experts));
  }
  for (std::int64_t i = first(); i < shape.tokens * shape.d; i += step()) {
    x[i] = __float2bfloat16(static_cast<float>(value_of(pattern, i / shape.d, i % shape.d)));
  }
}

__global__ void check_rows_kernel(const __nv_bfloat16* rows, const std::int32_t* src_ranks,
                                  const std::int32_t* src_routes, const std::int32_t* offs_end,
                                  int iteration, StressShape shape, unsigned long long* wrong) {
  const std::int64_t used = *offs_end;
  for (std::int64_t i = first(); i < shape.max_rows * shape.d; i += step()) {
    const std::int64_t row = i / shape.d;
    const std::int32_t rank = src_ranks[row], route = src_routes[row];
    if (row >= used) {
      if (rank != -1 || route != -1) atomicAdd(wrong, 1ull);
      continue;
    }
    if (rank < 0 || route < 0) {
      atomicAdd(wrong, 1ull);
      continue;
    }
    const int want = value_of({iteration, rank}, route / shape.topk, i % shape.d);
    if (__bfloat162float(rows[i]) != static_cast<float>(want)) atomicAdd(wrong, 1ull);
  }
}

__global__ void check_sums_kernel(const __nv_bfloat16* out, const std::int32_t* dst_rows,
                                  RowPattern pattern, StressShape shape,
                                  unsigned long long* wrong) {
  for (std::int64_t i = first(); i < shape.tokens * shape.d; i += step()) {
    const std::int64_t token = i / shape.d;
    int routes = 0;
    for (int slot = 0; slot < shape.topk; ++slot) {
      routes += dst_rows[token * shape.topk + slot] >= 0 ? 1 : 0;
    }
    const int want = routes * value_of(pattern, token, i % shape.d);
    if (__bfloat162float(out[i]) != static_cast<float>(want)) atomicAdd(wrong, 1ull);
  }
}

__global__ void delay_kernel(std::uint64_t nanoseconds) {
  const std::uint64_t begin = ::cuda::ptx::get_sreg_globaltimer();
  while (::cuda::ptx::get_sreg_globaltimer() - begin < nanoseconds) __nanosleep(500);
}

template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  const OwnDevice own;
  void* addresses[] = {&arguments...};
  must(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks), dim3(threads),
                        addresses, 0, stream),
       name);
}

}  // namespace

void fill_tokens(std::int32_t* ids, void* x, RowPattern pattern, const StressShape& shape,
                 cudaStream_t stream) {
  launch("fill_kernel", fill_kernel, kBlocks, kThreads, stream, ids, static_cast<__nv_bfloat16*>(x),
         pattern, shape);
}

void check_rows(const void* rows, const std::int32_t* src_ranks, const std::int32_t* src_routes,
                const std::int32_t* offs_end, int iteration, const StressShape& shape,
                unsigned long long* wrong, cudaStream_t stream) {
  launch("check_rows_kernel", check_rows_kernel, kBlocks, kThreads, stream,
         static_cast<const __nv_bfloat16*>(rows), src_ranks, src_routes, offs_end, iteration, shape,
         wrong);
}

void check_sums(const void* out, const std::int32_t* dst_rows, RowPattern pattern,
                const StressShape& shape, unsigned long long* wrong, cudaStream_t stream) {
  launch("check_sums_kernel", check_sums_kernel, kBlocks, kThreads, stream,
         static_cast<const __nv_bfloat16*>(out), dst_rows, pattern, shape, wrong);
}

void delay(std::uint64_t nanoseconds, cudaStream_t stream) {
  launch("delay_kernel", delay_kernel, 1, 1, stream, nanoseconds);
}

}  // namespace moesaic::ep_tests
