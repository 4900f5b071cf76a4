// SPDX-License-Identifier: Apache-2.0
// The barriers between the four producer warps that gather rows and the eight consumer warps, as a
// model whose actors step in random order: copies finish late and bulk bytes later, and still no
// stage is read before it is full or filled before it is free, every warp hears of every tile, and
// nobody is stuck. The same model with one arrival too few, of copies or of listeners, must be seen
// to fail.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/block/kernel_config.hpp"
#include "math/pipeline_phase.hpp"
#include "support/model_barrier.hpp"

namespace moesaic::backends::cuda {
namespace {

constexpr int kStages = KernelConfig{}.stages;
constexpr int kWarps = math::kGatherThreads / 32;
constexpr int kEnd = -1;

/// What lies in a stage: the number of the k-block since the launch that each part is of.
struct Stage {
  std::array<std::int64_t, kWarps> rows{};
  std::int64_t columns = -1;
  int message = kEnd - 1;
};

struct Copy {
  int stage;
  std::int64_t block;
};

class Model {
 public:
  /// arrives_early: at a slot's barrier before the slot is read or written.
  Model(int full_arrivals, int listeners, std::vector<int> tiles, std::uint32_t seed,
        bool arrives_early = false)
      : arrives_early_(arrives_early), tiles_(std::move(tiles)), random_(seed) {
    for (int slot = 0; slot < kGatherSlots; ++slot) {
      told_[slot].init(1);
      heard_[slot].init(listeners);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      full_[stage].init(full_arrivals);
      empty_[stage].init(kConsumerWarps);
      stages_[stage].rows.fill(-1);
    }
  }

  /// "" or what went wrong first.
  std::string run() {
    for (int step = 0; step < 400'000 && wrong_.empty(); ++step) {
      if (done()) return wrong_;
      const auto actor = random_() % (2 * kWarps + 1 + kConsumerWarps);
      if (actor < kWarps) {
        step_producer(static_cast<int>(actor));
      } else if (actor < 2 * kWarps) {
        finish_copy(static_cast<int>(actor) - kWarps);
      } else if (actor == 2 * kWarps) {
        finish_bulk();
      } else {
        step_consumer(static_cast<int>(actor) - 2 * kWarps - 1);
      }
    }
    return wrong_.empty() ? "stuck" : wrong_;
  }

 private:
  struct Producer {
    math::PipelineState<kStages> ring;
    std::int64_t block = 0;  // since the launch
    std::size_t tile = 0;
    math::PipelineState<kGatherSlots> slot;
    enum At { wait, hear, answer, load, finished } at = wait;
    int told = kEnd, k_block = 0;
    std::vector<Copy> under_way;
  };
  struct Consumer {
    math::PipelineState<kStages> ring;
    std::int64_t block = 0;
    std::size_t tile = 0;
    int k_block = 0;
    bool finished = false;
  };

  [[nodiscard]] bool done() const {
    for (const Consumer& consumer : consumers_) {
      if (!consumer.finished) return false;
    }
    return true;
  }
  [[nodiscard]] int tile_after(std::size_t tile) const {
    return tile < tiles_.size() ? static_cast<int>(tile) : kEnd;
  }
  [[nodiscard]] int stages_of(int tile) const {
    return tile == kEnd ? 1 : tiles_[static_cast<std::size_t>(tile)];
  }
  void expect(bool holds, const char* what) {
    if (!holds && wrong_.empty()) wrong_ = what;
  }

  void step_producer(int warp) {
    Producer& self = producers_[warp];
    const bool leads = warp == 0;
    const auto slot = static_cast<std::size_t>(self.slot.stage);
    switch (self.at) {
      case Producer::wait:
        if ((leads ? heard_ : told_)[slot].would_pass(leads ? math::producer_parity(self.slot.phase)
                                                            : self.slot.phase)) {
          self.at = arrives_early_ ? Producer::answer : Producer::hear;
        }
        return;
      case Producer::hear:  // the slot is written, or read
        if (leads) slots_[slot] = tile_after(self.tile);
        self.told = slots_[slot];
        expect(self.told == tile_after(self.tile), "a warp hears of another tile");
        self.at = arrives_early_ ? next_tile(self) : Producer::answer;
        return;
      case Producer::answer:
        (leads ? told_ : heard_)[slot].arrive();
        self.at = arrives_early_ ? Producer::hear : next_tile(self);
        return;
      case Producer::load:
        load(warp, self);
        return;
      case Producer::finished:
        return;
    }
  }

  static Producer::At next_tile(Producer& self) {
    self.slot.advance();
    self.k_block = 0;
    return Producer::load;
  }

  void load(int warp, Producer& self) {
    const int stage = self.ring.stage;
    if (!empty_[stage].would_pass(math::producer_parity(self.ring.phase))) return;
    for (const Consumer& consumer : consumers_) {
      expect(consumer.block + kStages > self.block, "a stage in use is filled");
    }
    const bool last = self.told == kEnd;
    if (warp == 0) {
      if (self.k_block == 0) stages_[stage].message = self.told;
      if (!last) {
        full_[stage].expect(1);
        bulk_.push_back({stage, self.block});
      }
      full_[stage].arrive();
    }
    // Also where nothing is copied: the thread's arrival follows the copies before it.
    self.under_way.push_back({stage, self.block});
    self.ring.advance();
    ++self.block;
    if (++self.k_block < stages_of(self.told)) return;
    ++self.tile;
    self.at = last ? Producer::finished : Producer::wait;
  }

  /// A warp's oldest copies are complete: 32 threads arrive.
  void finish_copy(int warp) {
    std::vector<Copy>& copies = producers_[warp].under_way;
    if (copies.empty()) return;
    const Copy copy = copies.front();
    copies.erase(copies.begin());
    stages_[copy.stage].rows[static_cast<std::size_t>(warp)] = copy.block;
    if (full_[copy.stage].arrivals > 1) full_[copy.stage].arrive(32);
  }
  void finish_bulk() {
    if (bulk_.empty()) return;
    const std::size_t which = random_() % bulk_.size();
    const Copy copy = bulk_[which];
    bulk_.erase(bulk_.begin() + static_cast<std::ptrdiff_t>(which));
    stages_[copy.stage].columns = copy.block;
    full_[copy.stage].transfer(1);
  }

  void step_consumer(int warp) {
    Consumer& self = consumers_[warp];
    const int stage = self.ring.stage;
    if (self.finished || !full_[stage].would_pass(self.ring.phase)) return;
    const int tile = tile_after(self.tile);
    if (self.k_block == 0) expect(stages_[stage].message == tile, "another tile's message");
    if (tile == kEnd) {
      self.finished = true;
      return;
    }
    for (const std::int64_t block : stages_[stage].rows) {
      expect(block == self.block, "rows are read before they have come");
    }
    expect(stages_[stage].columns == self.block, "columns are read before they have come");
    empty_[stage].arrive();
    self.ring.advance();
    ++self.block;
    if (++self.k_block == stages_of(tile)) {
      self.k_block = 0;
      ++self.tile;
    }
  }

  std::array<ModelBarrier, kStages> full_, empty_;
  std::array<Stage, kStages> stages_;
  std::array<Producer, kWarps> producers_;
  std::array<Consumer, kConsumerWarps> consumers_;
  bool arrives_early_;
  std::array<ModelBarrier, kGatherSlots> told_, heard_;
  std::array<int, kGatherSlots> slots_{};
  std::vector<int> tiles_;  // stages of each
  std::vector<Copy> bulk_;
  std::mt19937 random_;
  std::string wrong_;
};

/// Short tiles and long ones, as few rows and an expert without rows make them.
std::vector<int> tiles(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> stages(random() % 12);
  for (int& count : stages) count = 1 + static_cast<int>(random() % 2 * (random() % 9));
  return stages;
}

std::string run(int full_arrivals, int listeners, std::uint32_t seed) {
  return Model(full_arrivals, listeners, tiles(seed), seed).run();
}

constexpr int kArrivals = KernelConfig{.gather = true}.full_arrivals();

TEST(GatherRing, StagesAreFullWhenAllHaveCome) {
  EXPECT_EQ(kArrivals, 1 + math::kGatherThreads);
  EXPECT_EQ(KernelConfig{}.full_arrivals(), 1);
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    ASSERT_EQ(run(kArrivals, kGatherListeners, seed), "") << "seed " << seed;
  }
}

TEST(GatherRing, TheModelSeesOneArrivalTooFewAndOneTooMany) {
  int early = 0;
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    early += run(1, kGatherListeners, seed) == "rows are read before they have come" ? 1 : 0;
    EXPECT_EQ(run(kArrivals + 1, kGatherListeners, seed), "stuck");
  }
  EXPECT_GT(early, 25);
}

// By tiles of one stage: of longer ones the ring itself keeps the warps together.
TEST(GatherRing, TheModelSeesAListenerTooFewAndOneTooMany) {
  const std::vector<int> shortest(12, 1);
  const auto run_with = [&](int listeners, std::uint32_t seed) {
    return Model(kArrivals, listeners, shortest, seed).run();
  };
  int misheard = 0;
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    ASSERT_EQ(run_with(kGatherListeners, seed), "") << "seed " << seed;
    misheard += run_with(kGatherListeners - 1, seed) == "a warp hears of another tile" ? 1 : 0;
    EXPECT_EQ(run_with(kGatherListeners + 1, seed), "stuck");
  }
  EXPECT_GT(misheard, 10);
}

TEST(GatherRing, TheModelSeesAnArrivalBeforeTheSlotIsReadOrWritten) {
  int misheard = 0;
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const std::string wrong =
        Model(kArrivals, kGatherListeners, std::vector<int>(12, 1), seed, true).run();
    misheard += wrong == "a warp hears of another tile" ? 1 : 0;
  }
  EXPECT_GT(misheard, 25);
}

}  // namespace
}  // namespace moesaic::backends::cuda
