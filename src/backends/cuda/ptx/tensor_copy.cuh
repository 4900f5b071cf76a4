// SPDX-License-Identifier: Apache-2.0
// Bulk tensor copies between global and shared memory (TMA), through cuda::ptx. Coordinates run
// from the fastest dimension.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cuda/ptx>

#include "backends/cuda/ptx/shared_address.cuh"

namespace moesaic::backends::cuda::ptx {

/// cuda::ptx has no prefetch of a tensor map.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Global to shared; the copy's bytes, clipped or not, are counted on `barrier`.
template <int kRank>
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map,
                                         std::uint32_t barrier, const std::int32_t (&at)[kRank]) {
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                    shared_pointer<void>(to), map, at,
                                    shared_pointer<std::uint64_t>(barrier));
}

/// What L2 is to do with the lines that a copy brings.
__device__ __forceinline__ std::uint64_t l2_evict_first() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ std::uint64_t l2_evict_normal() {
  std::uint64_t policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(policy));
  return policy;
}

/// The same with a policy for L2, which cuda::ptx does not take.
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map,
                                         std::uint32_t barrier, const std::int32_t (&at)[3],
                                         std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap* map,
                                         std::uint32_t barrier, const std::int32_t (&at)[4],
                                         std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(barrier), "l"(policy)
      : "memory");
}

/// Shared to global, in groups of the issuing thread.
template <int kRank>
__device__ __forceinline__ void store_box(const CUtensorMap* map, std::uint32_t from,
                                          const std::int32_t (&at)[kRank]) {
  ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared, map, at,
                                    shared_pointer<const void>(from));
}
/// Adds to global memory in L2 instead.
template <int kRank>
__device__ __forceinline__ void add_box(const CUtensorMap* map, std::uint32_t from,
                                        const std::int32_t (&at)[kRank]) {
  ::cuda::ptx::cp_reduce_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared,
                                           ::cuda::ptx::op_add, map, at,
                                           shared_pointer<const void>(from));
}
__device__ __forceinline__ void store_commit() { ::cuda::ptx::cp_async_bulk_commit_group(); }
/// Waits until at most kPending groups still have to read shared memory.
template <int kPending>
__device__ __forceinline__ void store_wait_read() {
  ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<kPending>{});
}

}  // namespace moesaic::backends::cuda::ptx
