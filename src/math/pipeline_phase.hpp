// SPDX-License-Identifier: Apache-2.0
// L0: which stage of a ring a k-block uses, and which parity its barriers have then. The ring runs
// on across tiles and experts, so the counter is the CTA's k-blocks since launch. Waiting itself is
// the kernel's.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"

namespace moesaic::math {

/// Stage, and the parity with which a consumer waits for the stage to be full.
struct StagePhase {
  std::int32_t stage = 0;
  std::uint32_t phase = 0;
  bool operator==(const StagePhase&) const = default;
};

/// Stage and phase of k-block `counter` ≥ 0 in a ring of `stages` ≥ 1.
template <std::integral Counter>
MOESAIC_HD constexpr StagePhase stage_phase(Counter counter, Counter stages) {
  const Counter round = static_cast<Counter>(counter / stages);
  return {static_cast<std::int32_t>(counter - round * stages),
          static_cast<std::uint32_t>(round % 2)};
}

/// The parity with which a producer waits for the stage to be empty: one behind the consumer's. A
/// fresh mbarrier counts the phase before its first as complete, so the first round passes without
/// a wait.
MOESAIC_HD constexpr std::uint32_t producer_parity(std::uint32_t phase) { return phase ^ 1u; }

/// The same, one k-block at a time and without a division.
template <int kStages>
struct PipelineState {
  static_assert(kStages >= 1);
  std::int32_t stage = 0;
  std::uint32_t phase = 0;

  MOESAIC_HD constexpr void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1u;
    }
  }

  /// Skips `blocks` ≥ 0 k-blocks at once.
  template <std::integral Counter>
  MOESAIC_HD constexpr void advance_by(Counter blocks) {
    const StagePhase next = stage_phase<Counter>(static_cast<Counter>(stage + blocks), kStages);
    stage = next.stage;
    phase ^= next.phase;
  }

  [[nodiscard]] MOESAIC_HD constexpr StagePhase stage_phase_now() const { return {stage, phase}; }
};

}  // namespace moesaic::math
