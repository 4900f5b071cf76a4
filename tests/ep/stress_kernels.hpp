// SPDX-License-Identifier: Apache-2.0
// Kernels of the stress test: values that say where they belong, looked at on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace moesaic::ep_tests {

/// Element j of a token's row: a small integer that depends on all of these, so that BF16 sums of
/// up to 16 of them are exact.
struct RowPattern {
  int iteration = 0, rank = 0;
};

struct StressShape {
  std::int64_t tokens = 0, max_rows = 0, d = 0;
  int topk = 1, experts = 1;
};

/// Random ids (of iteration, rank, token, slot), a tenth of them −1, and the tokens' rows.
void fill_tokens(std::int32_t* ids, void* x, RowPattern pattern, const StressShape& shape,
                 cudaStream_t stream);
/// Counts in *wrong the elements of the first offs_end[0] rows that are not their source's, and the
/// rows that have none.
void check_rows(const void* rows, const std::int32_t* src_ranks, const std::int32_t* src_routes,
                const std::int32_t* offs_end, int iteration, const StressShape& shape,
                unsigned long long* wrong, cudaStream_t stream);
/// Counts in *wrong the elements of out that are not as many times their token's as it has routes.
void check_sums(const void* out, const std::int32_t* dst_rows, RowPattern pattern,
                const StressShape& shape, unsigned long long* wrong, cudaStream_t stream);
/// Keeps the stream busy for so long.
void delay(std::uint64_t nanoseconds, cudaStream_t stream);

}  // namespace moesaic::ep_tests
