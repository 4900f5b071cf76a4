// SPDX-License-Identifier: Apache-2.0
// Which operands have to be drawn: only those that no case before has left behind.
#include "tools/moesaic/experiment/held_operands.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace moesaic::cli::experiment {
namespace {

Case make_case(std::vector<std::int64_t> counts, std::int64_t width,
               ExpertRows expert_rows = ExpertRows::own) {
  Case one;
  one.shape = {.d = width, .h = width};
  one.record.counts = std::move(counts);
  one.expert_rows = expert_rows;
  return one;
}

void expect_drawn(HeldOperands& held, const Case& one, std::int64_t x, std::int64_t w) {
  const RowsToDraw missing = held.take(one);
  EXPECT_EQ(missing.x, x);
  EXPECT_EQ(missing.w, w);
}

TEST(HeldOperands, KeepsWhatIsAsWide) {
  HeldOperands held;
  expect_drawn(held, make_case({10, 20}, 64), 30, 128);
  expect_drawn(held, make_case({20, 10}, 64), 0, 0);     // whose rows they are does not matter
  expect_drawn(held, make_case({5, 5, 5}, 64), 0, 192);  // more experts, fewer rows
  expect_drawn(held, make_case({31}, 64), 31, 0);
  expect_drawn(held, make_case({1, 1}, 32), 2, 64);
  expect_drawn(held, make_case({31}, 64), 31, 64);
}

TEST(HeldOperands, DrawsOneExpertsRowsWhereTheyAreRepeated) {
  HeldOperands held;
  expect_drawn(held, make_case({8, 8, 8, 8}, 16, ExpertRows::repeated), 8, 64);
  expect_drawn(held, make_case({8, 8}, 16, ExpertRows::repeated), 0, 0);
  expect_drawn(held, make_case({8, 8, 8, 8, 8}, 16, ExpertRows::repeated), 8, 80);
  expect_drawn(held, make_case({4, 4}, 16, ExpertRows::repeated), 4, 0);
  expect_drawn(held, make_case({4, 4}, 16), 8, 0);  // repeated rows are not own ones
  expect_drawn(held, make_case({2, 2}, 16, ExpertRows::repeated), 2, 0);
}

}  // namespace
}  // namespace moesaic::cli::experiment
