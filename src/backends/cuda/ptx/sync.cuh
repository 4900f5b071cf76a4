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
/// Makes barrier inits visible to the async proxy.
__device__ __forceinline__ void fence_barrier_init() {
  ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  ::cuda::ptx::mbarrier_arrive(shared_pointer<std::uint64_t>(barrier));
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

/// A word of global memory that other CTAs change.
__device__ __forceinline__ std::uint32_t load_relaxed(const std::uint32_t* word) {
  std::uint32_t value = 0;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
/// Adds 1 to it, where `is_mine`: without a branch, at which a warp might diverge.
__device__ __forceinline__ void add_relaxed(std::uint32_t* word, bool is_mine) {
  asm volatile(
      "{\n.reg .pred mine;\nsetp.ne.u32 mine, %1, 0;\n"
      "@mine red.relaxed.gpu.global.add.u32 [%0], 1;\n}\n" ::"l"(word),
      "r"(static_cast<std::uint32_t>(is_mine))
      : "memory");
}

/// Brings the line of global memory at `address` to L2.
__device__ __forceinline__ void prefetch_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
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

}  // namespace moesaic::backends::cuda::ptx
