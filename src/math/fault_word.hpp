// SPDX-License-Identifier: Apache-2.0
// L0: what is wrong with one expert's offset, and its packing into one 64-bit word that an atomic
// maximum keeps lowest-expert-first. Which offsets are wrong is decided in expert_segment.hpp.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// The numbers are part of the word, hence of the workspace format.
enum class FaultKind : std::uint32_t {
  none = 0,
  offs_not_monotonic = 1,  ///< offs[e] < offs[e-1], both inside the buffer.
  offs_out_of_range = 2,   ///< offs[e] < 0 or offs[e] > M.
};

struct Fault {
  FaultKind kind = FaultKind::none;
  std::int32_t expert = -1;  ///< 0 … kMaxFaultExpert, −1 for none.
  std::int32_t value = 0;    ///< The offending offs[expert].

  MOESAIC_HD constexpr explicit operator bool() const { return kind != FaultKind::none; }
  bool operator==(const Fault&) const = default;
};

inline constexpr std::int32_t kMaxFaultExpert = 0x3FFFFFFF;

/// ((2³⁰ − 1 − expert) << 34) | (kind << 32) | uint32(value); 0 for no fault. A fault is never 0,
/// since its kind is not, and a lower expert always gives the larger word. 0 ≤ expert ≤
/// kMaxFaultExpert.
MOESAIC_HD constexpr std::uint64_t encode_fault(const Fault& fault) {
  if (!fault) return 0;
  return (static_cast<std::uint64_t>(kMaxFaultExpert - fault.expert) << 34) |
         (static_cast<std::uint64_t>(fault.kind) << 32) | static_cast<std::uint32_t>(fault.value);
}

/// The inverse of encode_fault().
MOESAIC_HD constexpr Fault decode_fault(std::uint64_t word) {
  if (word == 0) return {};
  return {static_cast<FaultKind>((word >> 32) & 3u),
          kMaxFaultExpert - static_cast<std::int32_t>(word >> 34),
          static_cast<std::int32_t>(static_cast<std::uint32_t>(word))};
}

/// What an atomic maximum leaves behind: the fault of the lowest expert, or 0. One expert has at
/// most one fault, so the result does not depend on the order.
MOESAIC_HD constexpr std::uint64_t combine_faults(std::uint64_t a, std::uint64_t b) {
  return max(a, b);
}

}  // namespace moesaic::math
