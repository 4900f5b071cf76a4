// SPDX-License-Identifier: Apache-2.0
#include "math/pipeline_phase.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace moesaic::math {
namespace {

static_assert(stage_phase(0, 4) == StagePhase{0, 0} && stage_phase(3, 4) == StagePhase{3, 0});
static_assert(stage_phase(4, 4) == StagePhase{0, 1} && stage_phase(7, 3) == StagePhase{1, 0});
static_assert(stage_phase<std::int64_t>(std::int64_t{3} << 40, 3) == StagePhase{0, 0});
static_assert(producer_parity(0) == 1 && producer_parity(1) == 0);

template <int kStages>
void expect_state_follows_counter() {
  PipelineState<kStages> state;
  for (std::int64_t counter = 0; counter < 10 * kStages + 3; ++counter) {
    ASSERT_EQ(state.stage_phase_now(), (stage_phase<std::int64_t>(counter, kStages)));
    for (std::int64_t skip = 0; skip < 5 * kStages; ++skip) {
      PipelineState<kStages> jumped = state;
      jumped.advance_by(skip);
      ASSERT_EQ(jumped.stage_phase_now(), (stage_phase<std::int64_t>(counter + skip, kStages)));
    }
    state.advance();
  }
}

TEST(PipelinePhase, IncrementalStateAgreesWithTheCounter) {
  expect_state_follows_counter<1>();
  expect_state_follows_counter<2>();
  expect_state_follows_counter<3>();
  expect_state_follows_counter<4>();
  expect_state_follows_counter<7>();
}

// A barrier as the hardware has it: `completed` phases; waiting with parity p returns when the
// phase of that parity is complete, that is when the running phase has the other parity.
struct ModelBarrier {
  std::int64_t completed = 0;
  [[nodiscard]] bool would_pass(std::uint32_t parity) const {
    return static_cast<std::uint32_t>(completed % 2) != parity;
  }
};

// Producer and consumer step in random order on model barriers: the producer never overwrites a
// stage that has not been consumed, the consumer never reads one that has not been filled, and
// neither gets stuck.
template <int kStages>
void run_model(std::uint32_t seed) {
  std::vector<ModelBarrier> full(kStages), empty(kStages);
  std::vector<std::int64_t> content(kStages, -1);
  PipelineState<kStages> producer, consumer;
  std::int64_t produced = 0, consumed = 0;
  std::uint32_t random = seed;
  constexpr std::int64_t kBlocks = 200;
  for (int step = 0; step < 100000 && consumed < kBlocks; ++step) {
    random = random * 1664525u + 1013904223u;
    if ((random >> 16) % 2 == 0) {
      if (produced == kBlocks || !empty[producer.stage].would_pass(producer_parity(producer.phase)))
        continue;
      ASSERT_LT(produced - consumed, kStages) << "overwrites a stage in use";
      content[producer.stage] = produced++;
      ++full[producer.stage].completed;
      producer.advance();
    } else {
      if (!full[consumer.stage].would_pass(consumer.phase)) continue;
      ASSERT_EQ(content[consumer.stage], consumed) << "reads a stage before it is filled";
      ++consumed;
      ++empty[consumer.stage].completed;
      consumer.advance();
    }
  }
  ASSERT_EQ(consumed, kBlocks) << "stuck";
}

TEST(PipelinePhase, ParitiesDriveABarrierRing) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    run_model<1>(seed);
    run_model<3>(seed);
    run_model<4>(seed);
  }
}

}  // namespace
}  // namespace moesaic::math
