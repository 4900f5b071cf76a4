// SPDX-License-Identifier: Apache-2.0
// L0: how CTA 0 of a pair passes on what the queue answered: words in the other's shared memory,
// which go round, each with the number of its answer, and a word back that says how many were read.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"

namespace moesaic::math {

/// Answers have numbers from 1 on. A word is of answer `count` if it says so; slots are zero at
/// first.
struct PairAnswers {
  static constexpr std::uint32_t kSlots = 8;
  static constexpr int kCountBits = 16;  ///< Of a number; those that share a slot differ in them.

  MOESAIC_HD static constexpr std::uint32_t slot(std::uint32_t count) { return count % kSlots; }
  MOESAIC_HD static constexpr std::uint64_t word(std::uint32_t count, std::int64_t taken) {
    return static_cast<std::uint64_t>(taken) << kCountBits | count % (1U << kCountBits);
  }
  MOESAIC_HD static constexpr bool is_answer(std::uint64_t word, std::uint32_t count) {
    return word % (1U << kCountBits) == count % (1U << kCountBits);
  }
  MOESAIC_HD static constexpr std::int64_t taken(std::uint64_t word) {
    return static_cast<std::int64_t>(word >> kCountBits);
  }
  /// Whether answer `count` may be written where `read` were read: not over one that was not. The
  /// rings do not see to that, since of half a tile nothing may exist, which takes an answer and no
  /// stage.
  MOESAIC_HD static constexpr bool may_write(std::uint32_t count, std::uint32_t read) {
    return count - read <= kSlots;
  }
};

}  // namespace moesaic::math
