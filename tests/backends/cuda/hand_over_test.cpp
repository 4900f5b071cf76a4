// SPDX-License-Identifier: Apache-2.0
// The barriers between the consumer warps, which leave sides of tiles in shared memory, and the
// warps that apply the activation to them, as a model whose actors step in random order: every side
// is applied once and in order by all of them, nothing is read or overwritten too early, and nobody
// is stuck, whether both warpgroups have rows of a tile, the first or none. The same model without
// each of these defences must fail.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "math/integer.hpp"
#include "math/pipeline_phase.hpp"
#include "support/model_barrier.hpp"

namespace moesaic::backends::cuda {
namespace {

constexpr KernelConfig kBoxes{.epilogue = Epilogue::swiglu};
constexpr KernelConfig kGather{.epilogue = Epilogue::swiglu, .gather = true};
constexpr int kWarpsOfGroup = kConsumerWarps / kConsumerWarpgroups;
constexpr int kNone = -1;
static_assert(kWarpsOfGroup * kPanelRows == kBlockRows);

/// What can be taken away.
struct Defences {
  bool waits_until_taken = true;  ///< A consumer warp, before it leaves a side.
  bool waits_for_second = true;   ///< An activation warp, where the second warpgroup has rows.
  int handed_arrivals = kBoxes.handed_arrivals();
  int uncounted_takers = 0;  ///< Activation warps for which `taken` does not wait.
  int teller = 0;            ///< The warp that writes the message: of the first warpgroup.
  bool tells_first = true;   ///< It does before it arrives.
  bool answers_last = true;  ///< An activation warp arrives when it has read.
};

class Model {
 public:
  /// `sides`: the rows of each that the CTA has, maybe none.
  Model(const Defences& defences, int takers, std::vector<int> sides, std::uint32_t seed)
      : defences_(defences), sides_(std::move(sides)), takers_(takers), random_(seed) {
    for (int warpgroup = 0; warpgroup < kConsumerWarpgroups; ++warpgroup) {
      handed_[warpgroup].init(defences.handed_arrivals);
      taken_[warpgroup].init(takers - defences.uncounted_takers);
    }
    panels_.fill(kNone);
  }

  /// "" or what went wrong first.
  std::string run() {
    for (int step = 0; step < 400'000 && wrong_.empty(); ++step) {
      if (done()) return "";
      if (step % 256 == 0) slow_ = static_cast<std::uint32_t>(random_());
      const std::size_t actor = random_() % (consumers_.size() + takers_.size());
      if ((slow_ >> actor) % 2 != 0 && random_() % 16 != 0) continue;
      if (actor < consumers_.size()) {
        consume(static_cast<int>(actor));
      } else {
        take(takers_[actor - consumers_.size()]);
      }
    }
    return wrong_.empty() ? "stuck" : wrong_;
  }

 private:
  struct Consumer {
    enum At { multiply, wait, leave, tell, arrive, finished } at = multiply;
    int side = 0;
    std::uint32_t phase = 0;
  };
  struct Taker {
    enum At { wait, hear, wait_for_second, apply, answer, finished } at = wait;
    std::uint32_t phases = 0;            // a bit of either warpgroup
    int heard = kNone, applied = kNone;  // the last side
    int panel = 0;
  };

  void expect(bool holds, const char* what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  [[nodiscard]] bool done() const {
    bool all = true;
    for (const Consumer& consumer : consumers_) all = all && consumer.at == Consumer::finished;
    for (const Taker& taker : takers_) all = all && taker.at == Taker::finished;
    return all;
  }
  [[nodiscard]] int end() const { return static_cast<int>(sides_.size()); }
  [[nodiscard]] int rows(int side) const { return side < 0 || side == end() ? 0 : sides_[side]; }
  /// The first from `side` on with rows of a warpgroup, or the end.
  [[nodiscard]] int next(int side, int warpgroup) const {
    while (side < end() && rows(side) <= warpgroup * kBlockRows) ++side;
    return side;
  }

  void consume(int warp) {
    Consumer& self = consumers_[warp];
    const int warpgroup = warp / kWarpsOfGroup;
    const bool tells_first = defences_.tells_first;
    switch (self.at) {
      case Consumer::multiply:  // a tile, or half of the next before its right side is left
        if (random_() % 4 != 0) return;
        self.side = next(self.side, warpgroup);
        self.at = self.side == end() && warpgroup != 0 ? Consumer::finished : Consumer::wait;
        return;
      case Consumer::wait:
        if (!defences_.waits_until_taken ||
            taken_[warpgroup].would_pass(math::producer_parity(self.phase))) {
          self.at = Consumer::leave;
        }
        return;
      case Consumer::leave:
        if (self.side < end()) leave(panels_[warp], self.side);
        self.at = tells_first ? Consumer::tell : Consumer::arrive;
        return;
      case Consumer::tell:
        if (warp == defences_.teller) tell(self.side);
        self.at = tells_first ? Consumer::arrive : after_side(self);
        return;
      case Consumer::arrive:
        handed_[warpgroup].arrive();
        self.phase ^= 1U;
        self.at = tells_first ? after_side(self) : Consumer::tell;
        return;
      case Consumer::finished:
        return;
    }
  }
  [[nodiscard]] Consumer::At after_side(Consumer& self) const {
    return self.side++ == end() ? Consumer::finished : Consumer::multiply;
  }
  void leave(int& panels, int side) {
    for (const Taker& taker : takers_) {
      expect(taker.applied >= panels, "panels are overwritten before all have read them");
    }
    panels = side;
  }
  void tell(int side) {
    for (const Taker& taker : takers_) {
      expect(taker.heard >= message_, "a message is overwritten before all have read it");
    }
    message_ = side;
  }

  void take(Taker& self) {
    const bool both = rows(self.heard) > kBlockRows;
    const bool answers_last = defences_.answers_last;
    switch (self.at) {
      case Taker::wait:
        if (handed_[0].would_pass(self.phases & 1U)) self.at = Taker::hear;
        return;
      case Taker::hear:
        expect(message_ == next(self.heard + 1, 0), "a warp hears of another side");
        self.heard = message_;
        self.panel = math::ceil_div(rows(message_), kPanelRows);
        self.at = self.panel == 0 ? Taker::finished : Taker::wait_for_second;
        return;
      case Taker::wait_for_second:
        if (both && defences_.waits_for_second && !handed_[1].would_pass(self.phases >> 1)) return;
        if (both) self.phases ^= 2U;
        self.at = answers_last ? Taker::apply : Taker::answer;
        return;
      case Taker::apply:  // a consumer warp's rows, those of the second warpgroup first
        expect(panels_[--self.panel] == self.heard, "panels are read too early");
        if (self.panel > 0) return;
        self.applied = self.heard;
        self.at = answers_last ? Taker::answer : after_side(self);
        return;
      case Taker::answer:
        taken_[0].arrive();
        if (both) taken_[1].arrive();
        self.at = answers_last ? after_side(self) : Taker::apply;
        return;
      case Taker::finished:
        return;
    }
  }
  static Taker::At after_side(Taker& self) {
    self.phases ^= 1U;
    return Taker::wait;
  }

  Defences defences_;
  std::vector<int> sides_;
  std::array<ModelBarrier, kConsumerWarpgroups> handed_, taken_;
  std::array<int, kConsumerWarps> panels_{};  // the side that lies in each warp's
  int message_ = kNone;                       // a side, or the end
  std::array<Consumer, kConsumerWarps> consumers_;
  std::vector<Taker> takers_;
  std::mt19937 random_;
  std::uint32_t slow_ = 0;  // a bit of every actor, for a while
  std::string wrong_;
};

/// Tiles of which the CTA has no rows, rows of one warpgroup or of both, whole and halved.
std::string run(const Defences& defences, int takers, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> sides;
  for (auto tiles = random() % 48; tiles > 0; --tiles) {
    const auto blocks = static_cast<int>(random() % (kConsumerWarpgroups + 1));
    const int rows = blocks * kBlockRows - static_cast<int>(random() % kBlockRows);
    sides.insert(sides.end(), 1 + random() % 2, math::max(rows, 0));
  }
  return Model(defences, takers, std::move(sides), seed).run();
}

/// Of 100 runs with either number of activation warps, whichever are fewer.
int count_of(const Defences& defences, const std::string& what) {
  std::array<int, 2> counts{};
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    counts[0] += run(defences, kBoxes.activation_warps(), seed) == what ? 1 : 0;
    counts[1] += run(defences, kGather.activation_warps(), seed) == what ? 1 : 0;
  }
  return math::min(counts[0], counts[1]);
}

TEST(HandOver, SidesAreTakenWhenAllHaveLeftThemAndLeftWhenAllHaveTakenThem) {
  for (const KernelConfig& config : {kBoxes, kGather}) {
    EXPECT_TRUE(config.hands_over());
    for (std::uint32_t seed = 1; seed <= 500; ++seed) {
      ASSERT_EQ(run({}, config.activation_warps(), seed), "") << "seed " << seed;
    }
  }
}

TEST(HandOver, TheModelSeesASideThatIsLeftBeforeAllHaveReadTheOneBefore) {
  const std::string overwritten = "panels are overwritten before all have read them";
  EXPECT_GT(count_of({.waits_until_taken = false}, overwritten), 50);
  EXPECT_GT(count_of({.uncounted_takers = 1}, overwritten), 50);
  EXPECT_GT(count_of({.answers_last = false}, overwritten), 50);
}

TEST(HandOver, TheModelSeesActivationWarpsThatDoNotWaitForAll) {
  EXPECT_GT(count_of({.waits_for_second = false}, "panels are read too early"), 50);
  EXPECT_GT(count_of({.handed_arrivals = kWarpsOfGroup - 1}, "panels are read too early"), 25);
}

TEST(HandOver, TheModelSeesAMessageThatComesLateOrFromTheSecondWarpgroup) {
  const std::string misheard = "a warp hears of another side";
  EXPECT_GT(count_of({.tells_first = false}, misheard), 50);
  EXPECT_GT(count_of({.teller = kWarpsOfGroup}, misheard), 50);
}

}  // namespace
}  // namespace moesaic::backends::cuda
