// SPDX-License-Identifier: Apache-2.0
// What the CTAs of a cluster do to one another: barriers of all their threads, arrivals at another
// CTA's mbarrier, and copies to the same place of several.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "backends/cuda/ptx/shared_address.cuh"

namespace moesaic::backends::cuda::ptx {

/// Rank of this CTA in its cluster.
__device__ __forceinline__ std::uint32_t cluster_rank() {
  return ::cuda::ptx::get_sreg_cluster_ctarank();
}

/// One barrier in two halves: all threads of the cluster arrive, then all wait. What a thread did
/// before it arrived comes before what any does after its wait.
__device__ __forceinline__ void cluster_arrive() {
  ::cuda::ptx::barrier_cluster_arrive(::cuda::ptx::sem_release);
}
__device__ __forceinline__ void cluster_wait() {
  ::cuda::ptx::barrier_cluster_wait(::cuda::ptx::sem_acquire);
}

/// Arrives at the barrier that lies in CTA `rank` where `barrier` lies in this one. Own PTX:
/// cuda::ptx offers the arrival of cluster scope alone, which is two fences of memory (MEMBAR) each
/// time. None is needed where what is handed over are reads that have ended: wgmma's and bulk
/// copies', which were waited for, and loads whose values have been used.
__device__ __forceinline__ void barrier_arrive_in(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// A word for CTA `rank` of the cluster, at its `address`; what comes with it is up to the reader.
/// Both this and the load are atomics, since a word is read while it may be written: plain accesses
/// that the memory model calls strong would do, but racecheck calls them a race.
__device__ __forceinline__ void store_shared_in(std::uint32_t address, std::uint32_t rank,
                                                std::uint64_t word) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      ".reg .b64 old;\natom.relaxed.cluster.shared::cluster.exch.b64 old, [there], %2;\n}\n" ::"r"(
          address),
      "r"(rank), "l"(word)
      : "memory");
}
/// One's own word that another CTA may be writing, in lanes that read it; else 0. Predicated, since
/// a branch here makes ptxas take the warp to be diverged.
__device__ __forceinline__ std::uint64_t load_shared_word(std::uint32_t address, bool reads) {
  std::uint64_t word = 0;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %3, 0;\n"
      "@p atom.relaxed.cluster.shared::cta.cas.b64 %0, [%1], %2, %2;\n}\n"
      : "+l"(word)
      : "r"(address), "l"(std::uint64_t{0}), "r"(static_cast<std::uint32_t>(reads))
      : "memory");
  return word;
}

/// A copy that goes to the same place of every CTA in `ctas`, one bit each, and counts its bytes on
/// the barrier in the same place of each.
struct Multicast {
  std::uint16_t ctas;
  std::uint64_t policy;  ///< For L2; see tensor_copy.cuh.
};

template <int kRank>
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map,
                                         std::uint32_t barrier, const std::int32_t (&at)[kRank],
                                         std::uint16_t ctas) {
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                    shared_pointer<void>(to), map, at,
                                    shared_pointer<std::uint64_t>(barrier), ctas);
}
/// The same with a policy for L2, which cuda::ptx does not take.
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map,
                                         std::uint32_t barrier, const std::int32_t (&at)[3],
                                         const Multicast& how) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier), "h"(how.ctas), "l"(how.policy)
      : "memory");
}
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map,
                                         std::uint32_t barrier, const std::int32_t (&at)[4],
                                         const Multicast& how) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(barrier), "h"(how.ctas),
      "l"(how.policy)
      : "memory");
}

}  // namespace moesaic::backends::cuda::ptx
