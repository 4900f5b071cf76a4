// SPDX-License-Identifier: Apache-2.0
// Kernels that the device tests need around a product: fills, a plain product by loops, a count of
// differing bytes, and a writer of offsets that is late on purpose.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "moesaic/grouped_gemm.hpp"

namespace moesaic::device_tests {

/// Sparse values of -1, 0 and 1, so that every sum is a small integer and exact in BF16. A value is
/// not zero with probability `threshold` / 2^32.
void fill_ternary(void* bf16, std::int64_t count, std::uint64_t seed, std::uint32_t threshold,
                  cudaStream_t stream);
void fill_normal(void* bf16, std::int64_t count, std::uint64_t seed, float scale,
                 cudaStream_t stream);
/// Sets every element of BF16 or FP32 memory.
void fill_value(void* data, DType dtype, std::int64_t count, float value, cudaStream_t stream);
/// Marks memory as never written: as BF16 and as FP32 a NaN with a payload, which no product of
/// NaNs has.
void fill_unwritten(void* data, std::int64_t bytes, cudaStream_t stream);

/// A grouped product as its definition reads. Lines of a, b and d are `*_stride` elements apart.
struct PlainProduct {
  Pass pass;
  bool enk;
  std::int64_t rows, n, k;
  int experts;
  const void* a;
  const void* b;
  const std::int32_t* offs;
  void* d;
  std::int64_t a_stride, b_stride, d_stride;
  bool f32_out;
  bool accumulate;
};
/// Computes valid segments only and writes nothing else; of rows that several experts claim, the
/// last one's.
void plain_product(const PlainProduct& product, cudaStream_t stream);

struct Differences {
  unsigned long long count;       ///< Bytes that differ, over all comparisons.
  unsigned long long first_byte;  ///< Offset of the lowest; ~0 without one.
};
/// Adds what differs between the two to `*result`, which lies on the device.
void count_differences(const void* a, const void* b, std::int64_t bytes, Differences* result,
                       cudaStream_t stream);

/// A kernel that lets the next grid start at once, then waits `cycles`, and only then copies
/// `count` offsets: whoever reads them before this grid has finished reads the old ones.
void write_offsets_late(std::int32_t* to, const std::int32_t* from, int count, long long cycles,
                        cudaStream_t stream);
void spin(long long cycles, cudaStream_t stream);

}  // namespace moesaic::device_tests
