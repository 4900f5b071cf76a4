// SPDX-License-Identifier: Apache-2.0
// See padding.hpp.

#include <algorithm>

#include "backends/cuda/kernels/padding_kernels.cuh"
#include "backends/cuda/launch/kernel_launch.hpp"
#include "backends/cuda/launch/padding.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr int kThreadsPerCta = 256;
constexpr int kCtasPerSm = 8;

LaunchGrid all_sms(int num_sms) {
  return {static_cast<unsigned>(num_sms * kCtasPerSm), kThreadsPerCta};
}

PaddingParams params(const GroupedGemmProblem& problem, const ConstTensorView& matrix,
                     const PaddedBatch& batch) {
  PaddingParams p{};
  p.offs = batch.offs;
  p.num_experts = problem.num_experts;
  p.max_rows = problem.max_rows;
  p.capacity = batch.capacity;
  p.ragged = static_cast<const unsigned char*>(matrix.data);
  p.ragged_pitch_bytes =
      (problem.max_rows > 1 ? matrix.stride[0] : matrix.shape[1]) * size_bytes(matrix.dtype);
  p.padded = static_cast<unsigned char*>(batch.data);
  p.row_bytes = matrix.shape[1] * size_bytes(matrix.dtype);
  p.skip_overfull = batch.skip_overfull;
  return p;
}

}  // namespace

void record_faults(const std::int32_t* offs, const GroupedGemmProblem& problem,
                   const Workspace& workspace, cudaStream_t stream, std::int64_t capacity) {
  auto* header = reinterpret_cast<core::WorkspaceHeader*>(workspace.bytes.data());
  launch_kernel("record_kernel", record_kernel, {1, 1024}, stream, offs, problem.num_experts,
                problem.max_rows, capacity,
                reinterpret_cast<unsigned long long*>(&header->fault_word),
                reinterpret_cast<long long*>(&header->overflow_rows));
}

void pad(const GroupedGemmProblem& problem, const ConstTensorView& matrix, const PaddedBatch& batch,
         int num_sms, cudaStream_t stream) {
  const PaddingParams p = params(problem, matrix, batch);
  launch_kernel("pad_kernel", pad_kernel, all_sms(num_sms), stream, p);
}

void unpad(const GroupedGemmProblem& problem, const PaddedBatch& batch, const TensorView& matrix,
           int num_sms, cudaStream_t stream) {
  PaddingParams p = params(problem, matrix, batch);
  p.ragged_out = static_cast<unsigned char*>(matrix.data);
  p.zero_tail = problem.tail == Tail::zero;
  launch_kernel("unpad_kernel", unpad_kernel, all_sms(num_sms), stream, p);
}

}  // namespace moesaic::backends::cuda::launch
