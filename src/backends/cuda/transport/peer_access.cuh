// SPDX-License-Identifier: Apache-2.0
// Rows to and from a peer, by one warp. Over NVLink by 16-byte loads and stores on mapped memory,
// else by NVSHMEM's warp calls. All addresses and sizes are multiples of 16 bytes.
#pragma once

#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>

#include "backends/cuda/transport/peer.hpp"
#include "math/missed_barrier.hpp"

namespace moesaic::backends::cuda::transport {

inline constexpr int kWarp = 32;

__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

/// 16 bytes.
using Vector = uint4;

/// Loads in flight per lane: latency over NVLink is several times that of own memory.
inline constexpr int kVectorsInFlight = 8;

/// Copies `count` vectors; all lanes of a warp take part.
__device__ __forceinline__ void copy_vectors(Vector* to, const Vector* from, std::int64_t count) {
  std::int64_t at = lane();
  for (; at + (kVectorsInFlight - 1) * kWarp < count; at += kVectorsInFlight * kWarp) {
    Vector held[kVectorsInFlight];
#pragma unroll
    for (int i = 0; i < kVectorsInFlight; ++i) held[i] = from[at + i * kWarp];
#pragma unroll
    for (int i = 0; i < kVectorsInFlight; ++i) to[at + i * kWarp] = held[i];
  }
  for (; at < count; at += kWarp) to[at] = from[at];
}

__device__ __forceinline__ void zero_vectors(Vector* to, std::int64_t count) {
  for (std::int64_t at = lane(); at < count; at += kWarp) to[at] = Vector{0, 0, 0, 0};
}

/// How rows travel in a kernel: `mapped` where all peers are mapped, which spares the kernel
/// NVSHMEM's calls and their registers; else each peer is looked at.
enum class Access : std::uint8_t { mapped, any };

template <Access kAccess>
__device__ __forceinline__ bool is_mapped(const Peer& peer) {
  return kAccess == Access::mapped || peer.mapped != nullptr;
}

/// Writes `count` vectors to a peer's range at `offset_bytes`. Visible there behind the next
/// barrier.
template <Access kAccess>
__device__ __forceinline__ void put_vectors(const Peer& peer, std::int64_t offset_bytes,
                                            const Vector* from, std::int64_t count) {
  if (is_mapped<kAccess>(peer)) {
    copy_vectors(reinterpret_cast<Vector*>(peer.mapped + offset_bytes), from, count);
  } else {
    nvshmemx_putmem_warp(peer.symmetric + offset_bytes, from,
                         static_cast<std::size_t>(count) * sizeof(Vector), peer.pe);
  }
}

/// Fetches `count` vectors of a peer's range.
template <Access kAccess>
__device__ __forceinline__ void get_vectors(Vector* to, const Peer& peer, std::int64_t offset_bytes,
                                            std::int64_t count) {
  if (is_mapped<kAccess>(peer)) {
    copy_vectors(to, reinterpret_cast<const Vector*>(peer.mapped + offset_bytes), count);
  } else {
    nvshmemx_getmem_warp(to, peer.symmetric + offset_bytes,
                         static_cast<std::size_t>(count) * sizeof(Vector), peer.pe);
  }
}

/// One word of a peer's range, by one thread. Visible there behind the next barrier.
__device__ __forceinline__ void put_int(const Peer& peer, std::int64_t index, std::int32_t value) {
  if (peer.mapped != nullptr) {
    reinterpret_cast<std::int32_t*>(peer.mapped)[index] = value;
  } else {
    nvshmem_int32_p(reinterpret_cast<std::int32_t*>(peer.symmetric) + index, value, peer.pe);
  }
}

using SystemWord = ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>;

/// True when an earlier barrier of this group was left without all ranks: move nothing any more, a
/// peer's memory may belong to nobody.
__device__ __forceinline__ bool is_broken(const GroupView& group) { return *group.broken != 0; }

/// The same clock on all SMs.
__device__ __forceinline__ std::uint64_t nanoseconds() {
  return ::cuda::ptx::get_sreg_globaltimer();
}

/// Tells every rank that this one has reached barrier `generation`, after all that it wrote before.
__device__ __forceinline__ void arrive(const GroupView& group, std::uint64_t generation) {
  // The kernels before this one in the stream happened before it, and with them their rows; release
  // at system scope hands all of it to whoever acquires the arrival below, in wait_for().
  for (int rank = static_cast<int>(threadIdx.x); rank < group.num_ranks;
       rank += static_cast<int>(blockDim.x)) {
    const Peer& peer = group.peers[rank];
    if (peer.mapped != nullptr) {
      SystemWord(reinterpret_cast<std::uint64_t*>(peer.mapped)[group.rank])
          .store(generation, ::cuda::memory_order_release);
    } else {
      nvshmem_quiet();  // rows that went by NVSHMEM's calls have arrived
      nvshmemx_signal_op(reinterpret_cast<std::uint64_t*>(peer.symmetric) + group.rank, generation,
                         NVSHMEM_SIGNAL_SET, peer.pe);
    }
  }
}

/// Waits until every rank has reached barrier `generation`, and at most the group's time-out for
/// each that one thread waits for. Leaves in `broken` which one did not.
__device__ __forceinline__ void wait_for(const GroupView& group, std::uint64_t generation) {
  const std::uint64_t begin = nanoseconds();
  for (int rank = static_cast<int>(threadIdx.x); rank < group.num_ranks;
       rank += static_cast<int>(blockDim.x)) {
    // acquire: pairs with the release of arrive() on that rank.
    while (SystemWord(group.arrivals[rank]).load(::cuda::memory_order_acquire) < generation) {
      if (nanoseconds() - begin > group.timeout_nanoseconds) {
        const std::uint64_t word = math::encode_missed_barrier({rank, generation});
        std::uint64_t none = 0;
        if (SystemWord(*group.broken).compare_exchange_strong(none, word)) {
          SystemWord(*group.host_broken).store(word, ::cuda::memory_order_release);
        }
        return;
      }
      __nanosleep(200);
    }
  }
}

}  // namespace moesaic::backends::cuda::transport
