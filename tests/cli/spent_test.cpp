// SPDX-License-Identifier: Apache-2.0
// Where time goes: parts add up, and what was spent corrects what is expected, part by part.
#include "tools/moesaic/experiment/spent.hpp"

#include <gtest/gtest.h>

#include "tools/moesaic/experiment/plan.hpp"

namespace moesaic::cli::experiment {
namespace {

TEST(Spent, PartsAddUp) {
  Spent sum{.start = 1, .prepare = 2, .check = 3, .timing = 4, .other = 5};
  sum += {.start = 0.5, .prepare = 0.25, .check = 0.125, .timing = 0, .other = 100};
  EXPECT_EQ(sum.total(), 15 + 100.875);
  EXPECT_EQ(sum.words(), "start 1.5 s, prepare 2.25 s, check 3.12 s, timing 4 s, other 105 s");
}

TEST(Account, ChargesTheTimeSinceTheLastCharge) {
  Account account;
  account.charge(&Spent::prepare);
  account.charge(&Spent::check);
  account.charge(&Spent::prepare);
  const Spent& spent = account.spent();
  EXPECT_GT(spent.prepare, 0);
  EXPECT_GE(spent.check, 0);
  EXPECT_EQ(spent.timing + spent.start + spent.other, 0);
  EXPECT_LE(spent.total(), account.seconds());
}

TEST(Spent, EveryPartIsCorrectedByItself) {
  const Spent next{.start = 0, .prepare = 1, .check = 10, .timing = 100, .other = 1000};
  // Nothing has been spent yet, or too little to say anything.
  EXPECT_EQ(corrected_seconds(next, {}, {}), 1111);
  EXPECT_EQ(corrected_seconds(next, {.check = 0.3}, {.check = 0.1}), 1111);
  // Checks took twice as long, the timing half as long, as was expected of them.
  EXPECT_EQ(corrected_seconds(next, {.check = 4, .timing = 10}, {.check = 2, .timing = 20}), 1071);
  // What took next to nothing where seconds were expected is known as well.
  EXPECT_EQ(corrected_seconds(next, {.other = 0}, {.other = 8}), 111);
}

TEST(Lesson, OnlyFinishedCasesCorrect) {
  const Spent one{.start = 1, .prepare = 2, .check = 3, .timing = 4, .other = 5};
  Lesson lesson;
  // Stopped in its check, the first case has no timing yet, which is not to say that it takes none.
  EXPECT_EQ(lesson.corrected(one), one.total());
  lesson.learn({.start = 2, .prepare = 2, .check = 6, .timing = 4, .other = 5}, one);
  EXPECT_EQ(lesson.corrected(one), one.total() + 4);
  lesson.learn({.start = 2, .prepare = 4, .check = 12, .timing = 4, .other = 10}, one);
  EXPECT_EQ(lesson.corrected(one), one.total() + 3 - 2);
}

/// fig40 at its protocol: most of the expected time is the protocol's own.
TEST(Plan, ExpectsOfFig40LittleButItsSamples) {
  const Design design = make_design("fig40", {});
  const std::vector<Task> tasks = tasks_of(design, ResultFile(), preset_pace("h200"));
  const Spent expected = expected_seconds(tasks);
  // 2,643 rows of 30 executes of 2 * 65536 * 4096^2 FLOPs at 0.7 of 989 TFLOP/s.
  const double samples = 2643 * 30 * 2.199e12 / (0.7 * 989e12);
  EXPECT_GT(expected.timing, samples);
  EXPECT_LT(expected.timing, 1.1 * samples);
  EXPECT_LT(expected.total(), 1.7 * samples);
  // Operands are drawn once in each of the three processes.
  EXPECT_LT(expected.prepare, 10);
  EXPECT_EQ(expected.start, 3 * start_seconds(preset_pace("h200")).start);
  const std::vector<Task> one = tasks_of(design, ResultFile(), preset_pace("h200"), {1, {}});
  EXPECT_NEAR(expected_seconds(one).total(), expected.total() / 3, 1);
}

}  // namespace
}  // namespace moesaic::cli::experiment
