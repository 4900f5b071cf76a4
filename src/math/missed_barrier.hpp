// SPDX-License-Identifier: Apache-2.0
// L0: which rank did not reach a barrier in time, in one 64-bit word that an atomic keeps.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"

namespace moesaic::math {

struct MissedBarrier {
  std::int32_t rank = -1;        ///< That did not come, 0 to 65,534; −1: nobody is missing.
  std::uint64_t generation = 0;  ///< Barriers of the group count from 1; below 2⁴⁸.

  MOESAIC_HD constexpr explicit operator bool() const { return rank >= 0; }
  bool operator==(const MissedBarrier&) const = default;
};

/// (generation << 16) | (rank + 1); 0 where nobody is missing.
MOESAIC_HD constexpr std::uint64_t encode_missed_barrier(const MissedBarrier& missed) {
  if (!missed) return 0;
  return (missed.generation << 16) | static_cast<std::uint64_t>(missed.rank + 1);
}

MOESAIC_HD constexpr MissedBarrier decode_missed_barrier(std::uint64_t word) {
  if (word == 0) return {};
  return {static_cast<std::int32_t>(word & 0xFFFFu) - 1, word >> 16};
}

}  // namespace moesaic::math
