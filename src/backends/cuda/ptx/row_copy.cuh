// SPDX-License-Identifier: Apache-2.0
// Copies of 16 bytes from global to shared memory that a thread starts and does not wait for.
#pragma once

#include <cstdint>

namespace moesaic::backends::cuda::ptx {

/// `bytes` of the 16, 0 or 16, are read; the others become zero. Past L1, whose lines no one else
/// of this CTA reads again.
__device__ __forceinline__ void copy_16(std::uint32_t to, const void* from, std::int32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/// This thread arrives at the barrier, one of the arrivals that it was initialized with, when all
/// copies that it has started are complete. cuda::ptx names no state space, so that ptxas takes its
/// 32-bit shared address for a generic one.
__device__ __forceinline__ void arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace moesaic::backends::cuda::ptx
