// SPDX-License-Identifier: Apache-2.0
// The rings of two CTAs that fill each other's stages, as a model whose actors step in random order
// and whose copies come late, to either CTA apart: no stage is read before it is full or filled
// before both are done with it, no byte counts on a phase that is not its own, nobody is stuck, and
// nothing reaches a CTA that has left. Warps may keep stages while they wait for later ones, as an
// epilogue does that goes on under multiplications. The same model without each of these defences
// must fail. And the rings of a pair that works apart, each by itself.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "math/pair_tiles.hpp"
#include "math/pipeline_phase.hpp"
#include "support/model_barrier.hpp"

namespace moesaic::backends::cuda {
namespace {

constexpr KernelConfig kPair{.pair = true};
constexpr int kStages = kPair.stages;
constexpr int kEnd = -1;

/// A tile of the pair: its steps, what both read of it, and whether CTA 1 has rows.
struct Tile {
  int steps;
  math::PairShares shares;
  bool two;
  /// What a CTA loads for itself: an operand, both, or none.
  [[nodiscard]] int own(int index) const {
    if (shares == math::PairShares::nothing) return 2;
    return shares == math::PairShares::rows || index == 0 || two ? 1 : 0;
  }
  [[nodiscard]] bool shared() const { return shares != math::PairShares::nothing; }
};

/// What can be taken away.
struct Defences {
  int empty_arrivals = kPair.empty_arrivals();
  bool release_both = true;    ///< A warp arrives at the empty barriers of both CTAs; apart: twice.
  bool leave_together = true;  ///< A cluster barrier comes last.
};

/// Of either CTA; together both have the same.
using Tiles = std::array<std::vector<Tile>, 2>;

class Model {
 public:
  Model(const Defences& defences, bool together, Tiles tiles, std::uint32_t seed)
      : defences_(defences), together_(together), tiles_(std::move(tiles)), random_(seed) {
    for (Cta& cta : ctas_) {
      for (int stage = 0; stage < kStages; ++stage) {
        cta.full[stage].init(kPair.full_arrivals());
        cta.empty[stage].init(defences.empty_arrivals);
      }
    }
  }

  /// "" or what went wrong first.
  std::string run() {
    for (int step = 0; step < 400'000 && wrong_.empty(); ++step) {
      if (ctas_[0].finished() && ctas_[1].finished() && copies_.empty()) return "";
      const int index = static_cast<int>(random_() % 2);
      const auto actor = static_cast<int>(random_() % (kConsumerWarps + 4));
      if (actor < kConsumerWarps) {
        consume(index, ctas_[index].consumers[actor]);
      } else if (actor == kConsumerWarps) {
        produce(index);
      } else {
        finish_copy();
      }
    }
    return wrong_.empty() ? "stuck" : wrong_;
  }

 private:
  struct Actor {
    math::PipelineState<kStages> ring;
    std::int64_t block = 0;  // since the launch
    std::size_t tile = 0;
    int step = 0;
    bool finished = false;
    std::int64_t released = 0;  // blocks; those after it are kept
    int keeps = 0;

    void advance(const std::vector<Tile>& tiles) {
      ring.advance();
      ++block;
      if (++step < tiles[tile].steps) return;
      step = 0;
      ++tile;
    }
  };
  /// What lies in a stage: the number of the block that each part is of.
  struct Stage {
    std::int64_t own = -1;
    std::array<std::int64_t, 2> shared{-1, -1};
    int message = kEnd - 1;
  };
  struct Cta {
    std::array<ModelBarrier, kStages> full, empty;
    std::array<Stage, kStages> stages;
    Actor producer;
    std::array<Actor, kConsumerWarps> consumers;

    [[nodiscard]] bool finished() const {
      bool all = producer.finished;
      for (const Actor& consumer : consumers) all = all && consumer.finished;
      return all;
    }
  };
  struct Copy {
    int to, stage, from;  // from: of a shared half; -1: the CTA's own
    std::int64_t block;
    int bytes;
  };

  void expect(bool holds, const char* what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }
  void expect_here(int index) {
    const bool left =
        ctas_[index].finished() && (!defences_.leave_together || ctas_[1 - index].finished());
    expect(!left, "something reaches a CTA that has left");
  }
  [[nodiscard]] int told(int index, const Actor& actor) const {
    return actor.tile < tiles_[index].size() ? static_cast<int>(actor.tile) : kEnd;
  }

  void produce(int index) {
    Cta& cta = ctas_[index];
    Actor& self = cta.producer;
    const int stage = self.ring.stage;
    if (self.finished || !cta.empty[stage].would_pass(math::producer_parity(self.ring.phase))) {
      return;
    }
    for (int to = 0; to < 2; ++to) {
      if (!together_ && to != index) continue;
      for (const Actor& consumer : ctas_[to].consumers) {
        expect(consumer.released + kStages > self.block, "a stage in use is filled");
      }
    }
    if (self.step == 0) cta.stages[stage].message = told(index, self);
    if (told(index, self) == kEnd) {
      cta.full[stage].arrive();
      self.finished = true;
      return;
    }
    const Tile& tile = tiles_[index][self.tile];
    cta.full[stage].expect(tile.own(index) + (tile.shared() ? 2 : 0));
    cta.full[stage].arrive();
    if (tile.own(index) > 0) copies_.push_back({index, stage, -1, self.block, tile.own(index)});
    for (int to = 0; tile.shared() && to < 2; ++to) {
      copies_.push_back({to, stage, index, self.block, 1});
    }
    self.advance(tiles_[index]);
  }

  void finish_copy() {
    if (copies_.empty()) return;
    const std::size_t which = random_() % copies_.size();
    const Copy copy = copies_[which];
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(which));
    expect_here(copy.to);
    ModelBarrier& full = ctas_[copy.to].full[copy.stage];
    expect(full.completed == copy.block / kStages, "bytes count on another phase");
    Stage& stage = ctas_[copy.to].stages[copy.stage];
    (copy.from < 0 ? stage.own : stage.shared[static_cast<std::size_t>(copy.from)]) = copy.block;
    full.transfer(copy.bytes);
  }

  void consume(int index, Actor& self) {
    Cta& cta = ctas_[index];
    const int at = self.ring.stage;
    if (self.block - self.released > self.keeps) {
      release(index, self);
      return;
    }
    if (self.finished || !cta.full[at].would_pass(self.ring.phase)) return;
    const Stage& stage = cta.stages[at];
    if (self.step == 0) expect(stage.message == told(index, self), "another tile's message");
    if (told(index, self) == kEnd) {
      self.keeps = 0;
      self.finished = self.block == self.released;
      return;
    }
    const Tile& tile = tiles_[index][self.tile];
    expect(tile.own(index) == 0 || stage.own == self.block, "an operand is read too early");
    for (const std::int64_t block : stage.shared) {
      expect(!tile.shared() || block == self.block, "a shared operand is read too early");
    }
    self.advance(tiles_[index]);
  }

  /// The oldest stage that a warp keeps; of the next ones it keeps some, but never all.
  void release(int index, Actor& self) {
    const auto at = static_cast<std::size_t>(self.released++ % kStages);
    ctas_[index].empty[at].arrive();
    if (defences_.release_both) {
      const int second = together_ ? 1 - index : index;
      expect_here(second);
      ctas_[second].empty[at].arrive();
    }
    if (self.keeps == 0 || random_() % 2 == 0) self.keeps = static_cast<int>(random_() % kStages);
  }

  Defences defences_;
  bool together_;
  std::array<Cta, 2> ctas_;
  Tiles tiles_;
  std::vector<Copy> copies_;
  std::mt19937 random_;
  std::string wrong_;
};

/// Long and short tiles of every kind, in any order, of both CTAs' rows or of one's.
std::string run(const Defences& defences, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tile> tiles(random() % 12);
  for (Tile& tile : tiles) {
    tile = {1 + static_cast<int>(random() % 2 * (random() % 9)),
            static_cast<math::PairShares>(random() % 3), random() % 2 == 0};
  }
  return Model(defences, true, {tiles, tiles}, seed).run();
}

/// The same of a pair whose CTAs each have tiles of their own, of which they share nothing.
std::string run_apart(const Defences& defences, std::uint32_t seed) {
  std::mt19937 random(seed);
  Tiles tiles;
  for (std::vector<Tile>& own : tiles) {
    own.resize(random() % 12);
    for (Tile& tile : own) {
      tile = {1 + static_cast<int>(random() % 2 * (random() % 9)), math::PairShares::nothing, true};
    }
  }
  return Model(defences, false, std::move(tiles), seed).run();
}

int count_of(const Defences& defences, const std::string& what) {
  int count = 0;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) count += run(defences, seed) == what ? 1 : 0;
  return count;
}

TEST(PairRing, StagesAreFullWhenBothHaveLoadedAndEmptyWhenBothHaveRead) {
  EXPECT_EQ(kPair.empty_arrivals(), 2 * kConsumerWarps);
  EXPECT_EQ(KernelConfig{}.empty_arrivals(), kConsumerWarps);
  for (std::uint32_t seed = 1; seed <= 500; ++seed) ASSERT_EQ(run({}, seed), "") << "seed " << seed;
}

TEST(PairRing, ApartEachIsFullAndEmptyByItself) {
  for (std::uint32_t seed = 1; seed <= 500; ++seed) {
    ASSERT_EQ(run_apart({}, seed), "") << "seed " << seed;
  }
  int stuck = 0;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    stuck += run_apart({.release_both = false}, seed) == "stuck" ? 1 : 0;
  }
  EXPECT_GT(stuck, 50) << "the model sees that the barrier still counts the arrivals of two CTAs";
}

TEST(PairRing, TheModelSeesAStageThatOneCtaAloneReleases) {
  EXPECT_GT(count_of({.empty_arrivals = kConsumerWarps, .release_both = false},
                     "a stage in use is filled"),
            50);
  EXPECT_GT(count_of({.release_both = false}, "stuck"), 50);
}

TEST(PairRing, TheModelSeesHalfTheArrivals) {
  EXPECT_GT(count_of({.empty_arrivals = kConsumerWarps}, "a stage in use is filled"), 50);
}

TEST(PairRing, TheModelSeesACtaThatLeavesAlone) {
  EXPECT_GT(count_of({.leave_together = false}, "something reaches a CTA that has left"), 10);
}

}  // namespace
}  // namespace moesaic::backends::cuda
