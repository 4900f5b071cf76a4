// SPDX-License-Identifier: Apache-2.0
// Launches of the padding kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

#include "core/workspace_header.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic::backends::cuda::launch {

inline constexpr std::int64_t kNoCapacity = std::numeric_limits<std::int64_t>::max();

/// Keeps the lowest fault of `offs` and the number of rows beyond `capacity` in the workspace's
/// header.
void record_faults(const std::int32_t* offs, const GroupedGemmProblem& problem,
                   const Workspace& workspace, cudaStream_t stream,
                   std::int64_t capacity = kNoCapacity);

struct PaddedBatch {
  const std::int32_t* offs;
  std::int64_t capacity;
  void* data;  ///< Dense [E, C, columns].
  bool skip_overfull;
};
/// Ragged rows of `matrix` into the batch; rows that no expert has are zero.
void pad(const GroupedGemmProblem& problem, const ConstTensorView& matrix, const PaddedBatch& batch,
         int num_sms, cudaStream_t stream);
/// The batch back into ragged rows of `matrix`, then the tail.
void unpad(const GroupedGemmProblem& problem, const PaddedBatch& batch, const TensorView& matrix,
           int num_sms, cudaStream_t stream);

}  // namespace moesaic::backends::cuda::launch
