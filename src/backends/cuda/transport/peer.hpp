// SPDX-License-Identifier: Apache-2.0
// How kernels see a group: where each rank's memory is, and what a barrier needs. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moesaic::backends::cuda::transport {

/// A range of a rank's symmetric memory. Ranks place it where they like, so that the range has
/// another offset in each rank's heap.
struct Peer {
  std::byte* mapped = nullptr;     ///< As this process sees it over NVLink; null where it does not.
  std::byte* symmetric = nullptr;  ///< What NVSHMEM's calls take: the offset in this rank's heap.
  std::int32_t pe = -1;
};

/// What a rank waited for in vain, in one word; 0: nothing.
struct BrokenWord {
  /// (generation << 16) | (rank + 1).
  static constexpr std::uint64_t encode(std::int32_t rank, std::uint64_t generation) {
    return (generation << 16) | static_cast<std::uint64_t>(rank + 1);
  }
  static constexpr std::int32_t rank(std::uint64_t word) {
    return static_cast<std::int32_t>(word & 0xFFFF) - 1;
  }
  static constexpr std::uint64_t generation(std::uint64_t word) { return word >> 16; }
};

/// A group on the device of one rank. `arrivals` and what `peers` names are symmetric memory:
/// arrivals[r] is the last barrier that rank r has reached, written by r.
struct GroupView {
  const Peer* peers = nullptr;          ///< [num_ranks]: of each rank's arrivals.
  std::uint64_t* arrivals = nullptr;    ///< [num_ranks]
  std::uint64_t* generation = nullptr;  ///< Barriers passed so far; on the device for graph replays.
  std::uint64_t* broken = nullptr;      ///< BrokenWord, on the device: kernels look before they move.
  std::uint64_t* host_broken = nullptr;  ///< The same in host memory: calls look before they enqueue.
  std::uint64_t timeout_nanoseconds = 0;
  std::int32_t num_ranks = 1;
  std::int32_t rank = 0;
};

}  // namespace moesaic::backends::cuda::transport
