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

/// A group on the device of one rank. `arrivals` and what `peers` names are symmetric memory:
/// arrivals[r] is the last barrier that rank r has reached, written by r.
struct GroupView {
  const Peer* peers = nullptr;        ///< [num_ranks]: of each rank's arrivals.
  std::uint64_t* arrivals = nullptr;  ///< [num_ranks]
  std::uint64_t* generation =
      nullptr;                      ///< Barriers passed so far; on the device for graph replays.
  std::uint64_t* broken = nullptr;  ///< A math/missed_barrier.hpp word; kernels look first.
  std::uint64_t* host_broken = nullptr;  ///< The same in host memory; calls look first.
  std::uint64_t timeout_nanoseconds = 0;
  std::int32_t num_ranks = 1;
  std::int32_t rank = 0;
  bool all_mapped = false;
};

}  // namespace moesaic::backends::cuda::transport
