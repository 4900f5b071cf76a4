// SPDX-License-Identifier: Apache-2.0
// Barriers, fences and warp-role instructions: cuda::ptx where it has them, own inline PTX for the
// rest. Addresses in shared memory are 32-bit, so that they stay in uniform registers.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "backends/cuda/ptx/shared_address.cuh"

namespace moesaic::backends::cuda::ptx {

/// True in one lane of a converged warp; the compiler knows it is one.
__device__ __forceinline__ bool elect_one() {
  std::uint32_t chosen = 0;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(chosen));
  return chosen != 0;
}

// ---- mbarrier

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  ::cuda::ptx::mbarrier_init(shared_pointer<std::uint64_t>(barrier), arrivals);
}
/// Makes barrier inits visible to the async proxy and to the other CTAs of the cluster.
__device__ __forceinline__ void fence_barrier_init() {
  ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  ::cuda::ptx::mbarrier_arrive(shared_pointer<std::uint64_t>(barrier));
}
/// Arrives at the same barrier of CTA `rank` of the cluster. Own PTX: cuda::ptx offers the remote
/// arrival with cluster-scope release only, whose fences halve the feed (NB-0003); nothing but
/// "read" is handed over here.
__device__ __forceinline__ void barrier_arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void barrier_arrive_expect(std::uint32_t barrier, std::uint32_t bytes) {
  ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                         ::cuda::ptx::space_shared,
                                         shared_pointer<std::uint64_t>(barrier), bytes);
}
/// Waits until the phase with this parity is complete. The instruction suspends the thread for a
/// while by itself, so that waiting warps cost few issue slots.
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  while (!::cuda::ptx::mbarrier_try_wait_parity(shared_pointer<std::uint64_t>(barrier), parity)) {
  }
}

/// Rank of this CTA in its cluster.
__device__ __forceinline__ std::uint32_t cluster_rank() {
  return ::cuda::ptx::get_sreg_cluster_ctarank();
}
/// Every thread of every CTA of the cluster has come here.
__device__ __forceinline__ void cluster_barrier() {
  ::cuda::ptx::barrier_cluster_arrive();
  ::cuda::ptx::barrier_cluster_wait();
}

/// Barrier `id` (1 to 15) among `threads` threads of the CTA.
__device__ __forceinline__ void named_barrier(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- Ordering between ordinary accesses and the async proxy (bulk copies, wgmma)

__device__ __forceinline__ void fence_async_proxy() {
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
}

// ---- wgmma

/// Orders register accesses before the wgmmas that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// ---- Registers per role

template <int kRegisters>
__device__ __forceinline__ void registers_release() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- Programmatic dependent launch

/// Waits until the grids before this one in the stream have finished and their writes are visible.
__device__ __forceinline__ void wait_for_prior_grids() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
/// Lets the next grid start its prologue.
__device__ __forceinline__ void allow_next_grid() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// Stores four 8x8 matrices of 16-bit elements; `row` is this lane's row of matrix lane / 8.
__device__ __forceinline__ void stmatrix_x4(std::uint32_t row, std::uint32_t m0, std::uint32_t m1,
                                            std::uint32_t m2, std::uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(m0), "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}
__device__ __forceinline__ void store_shared_v2(std::uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

}  // namespace moesaic::backends::cuda::ptx
