// SPDX-License-Identifier: Apache-2.0
// L0: whether dispatch by fan-out is expected to be the faster form, from what all ranks of a plan
// know. The three figures are measured: docs/notebook/0008-rows-over-nvlink.md (NB-0008), under
// «Which form».
#pragma once

#include <cstdint>

#include "math/host_device.hpp"

namespace moesaic::math {

/// What every rank knows when an exchange is planned; nothing of the data.
struct DispatchFacts {
  std::int32_t num_ranks = 1;    ///< R
  std::int32_t num_experts = 1;  ///< E, a multiple of R
  std::int32_t topk = 1;
  std::int64_t max_tokens = 0;  ///< T
  std::int64_t row_bytes = 0;
};

/// What one direction of a rank carries, and what a rank's memory reads and writes for copies.
inline constexpr double kWireBytesPerMicrosecond = 360'000;
inline constexpr double kCopyBytesPerMicrosecond = 3'300'000;
/// A second kernel, a barrier and what is told: what fan-out costs where it saves nothing.
inline constexpr double kFanOutMicroseconds = 14;

/// How many other ranks a token reaches in the mean, its experts distinct and drawn evenly.
MOESAIC_HD constexpr double expected_other_ranks(const DispatchFacts& facts) {
  const std::int32_t elsewhere = facts.num_experts - facts.num_experts / facts.num_ranks;
  double missed = 1;  // probability that none of the slots is of a given rank
  for (std::int32_t slot = 0; slot < facts.topk && slot <= elsewhere; ++slot) {
    missed *= static_cast<double>(elsewhere - slot) / (facts.num_experts - slot);
  }
  return (facts.num_ranks - 1) * (1 - missed);
}

/// By how much fan-out is expected to be faster for T tokens: bytes that do not travel, less copies
/// (each row that goes to another rank is either written by one or read for one), less its fixed
/// cost. Negative where direct dispatch is.
MOESAIC_HD constexpr double fan_out_saves_microseconds(const DispatchFacts& facts) {
  const double rows =
      static_cast<double>(facts.topk) * (facts.num_ranks - 1) / facts.num_ranks;  // of a token
  const double saved_rows = rows - expected_other_ranks(facts);
  const double bytes = static_cast<double>(facts.max_tokens) * static_cast<double>(facts.row_bytes);
  return bytes * (saved_rows / kWireBytesPerMicrosecond - rows / kCopyBytesPerMicrosecond) -
         kFanOutMicroseconds;
}

}  // namespace moesaic::math
