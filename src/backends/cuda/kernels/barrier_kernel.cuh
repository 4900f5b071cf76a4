// SPDX-License-Identifier: Apache-2.0
// The barrier of a group: one CTA per rank, which writes its arrival to all peers and waits for
// theirs.
#pragma once

#include "backends/cuda/transport/peer_access.cuh"

namespace moesaic::backends::cuda {

inline constexpr int kBarrierThreads = 128;

__global__ void __launch_bounds__(kBarrierThreads) barrier_kernel(transport::GroupView group) {
  if (transport::is_broken(group)) return;
  const std::uint64_t generation = *group.generation + 1;
  __syncthreads();  // all threads have read it before one writes it
  transport::arrive(group, generation);
  transport::wait_for(group, generation);
  if (threadIdx.x == 0) *group.generation = generation;
}

}  // namespace moesaic::backends::cuda
