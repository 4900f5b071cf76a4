// SPDX-License-Identifier: Apache-2.0
#include "math/step_marks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace moesaic::math {
namespace {

/// What a worker does in a tile, in order: the stages of its marks, questions and waits.
struct Visits {
  std::vector<int> marks, questions, waits;
  bool operator==(const Visits&) const = default;
};

Visits visit(int shortest, int stages) {
  Visits visits;
  StepMarks marks;
  marks.begin(shortest);
  int stage = 0;
  while (stage < stages) {
    if (marks.any()) {
      const StepMarks::Place place = marks.place(stage);
      if (place == StepMarks::Place::at_mark) visits.marks.push_back(stage);
      if (place == StepMarks::Place::at_question) visits.questions.push_back(stage);
      if (place == StepMarks::Place::at_wait) {
        visits.waits.push_back(stage);
        marks.go_on();
      }
    }
    const int until = marks.any() ? marks.up_to(marks.place(stage)) : stages;
    EXPECT_GT(until, stage) << "of " << stages;
    EXPECT_LE(until, stages);
    if (until <= stage) break;
    stage = until;
  }
  return visits;
}

TEST(StepMarks, AskBetweenMarkAndWaitInsideTheTile) {
  for (int stages = 0; stages < 700; ++stages) {
    const Visits visits = visit(stages, stages);
    ASSERT_EQ(visits.marks.size(), visits.waits.size());
    ASSERT_EQ(visits.marks.size(), visits.questions.size());
    for (std::size_t i = 0; i < visits.marks.size(); ++i) {
      ASSERT_EQ(visits.marks[i], StepMarks::kFirst + static_cast<int>(i) * StepMarks::kEvery);
      ASSERT_EQ(visits.waits[i], visits.marks[i] + StepMarks::kWaitsBehind);
      ASSERT_EQ(visits.questions[i], visits.waits[i] - StepMarks::kAsksBefore);
      ASSERT_LT(visits.waits[i], stages);
    }
  }
  EXPECT_TRUE(visit(24, 24).marks.empty());
  EXPECT_EQ(visit(25, 25).marks, (std::vector<int>{8}));
  EXPECT_EQ(visit(112, 112).marks, (std::vector<int>{8, 72}));
  EXPECT_EQ(visit(320, 320).marks, (std::vector<int>{8, 72, 136, 200, 264}));
}

// Workers whose tiles are longer make the marks of the shortest.
TEST(StepMarks, AreThoseOfTheShortest) {
  for (const int shortest : {0, 24, 25, 100, 256, 320}) {
    for (int more = 0; more < 40; ++more) {
      ASSERT_EQ(visit(shortest, shortest + more), visit(shortest, shortest));
    }
  }
}

// Tile after tile at speeds that differ up to 32 times: whoever waits for the marks that all are to
// have made by then is heard in the end, and nobody is farther ahead of the last than from mark to
// mark and a wait. It comes near that, so that fewer waits would be seen.
TEST(StepMarks, NobodyIsAheadAndNobodyWaitsForEver) {
  constexpr int kWorkers = 5, kStages = 150, kTiles = 3;
  const Visits visits = visit(kStages, kStages);
  const int to_next_tile = kStages - visits.marks.back() + StepMarks::kFirst;
  const int farthest = std::max(StepMarks::kEvery, to_next_tile) + StepMarks::kWaitsBehind;
  std::mt19937 random(1);
  int worst = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> turns;  // a worker as often as it is fast
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
      turns.insert(turns.end(), std::size_t{1} << random() % 6, worker);
    }
    std::int64_t marked = 0;
    std::vector<int> stage(kWorkers, 0);
    std::vector<std::int64_t> expected(kWorkers, 0);
    const auto next = [&](std::size_t worker) {
      const int in_tile = stage[worker] % kStages;
      for (const int mark : visits.marks) {
        if (in_tile == mark) {
          ++marked;
          expected[worker] += kWorkers;
        }
        if (in_tile == mark + StepMarks::kWaitsBehind && marked < expected[worker]) return false;
      }
      ++stage[worker];
      return true;
    };
    int idle = 0;
    while (*std::min_element(stage.begin(), stage.end()) < kTiles * kStages) {
      const std::size_t worker = turns[random() % turns.size()];
      if (stage[worker] == kTiles * kStages) continue;
      idle = next(worker) ? 0 : idle + 1;
      ASSERT_LT(idle, 10'000);
      const auto [last, first] = std::minmax_element(stage.begin(), stage.end());
      worst = std::max(worst, *first - *last);
    }
  }
  EXPECT_LE(worst, farthest);
  EXPECT_GE(worst, farthest - 5);
}

}  // namespace
}  // namespace moesaic::math
