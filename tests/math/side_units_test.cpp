// SPDX-License-Identifier: Apache-2.0
#include "math/side_units.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace moesaic::math {
namespace {

// Side after side of any height: every unit is taken by one warp, which knows its first row before
// and finds the others a step apart, and nobody ever has two units more than another.
template <std::int32_t kWarps>
void expect_turns() {
  using Units = SideUnits<kWarps>;
  std::mt19937 random(kWarps);
  std::vector<Units> warps;
  warps.reserve(kWarps);
  for (std::int32_t warp = 0; warp < kWarps; ++warp) warps.emplace_back(warp);
  std::vector<int> had(warps.size(), 0);
  for (int side = 0; side < 2000; ++side) {
    const auto rows = static_cast<std::int32_t>(1 + random() % 128);
    std::vector<int> taken(static_cast<std::size_t>(ceil_div(rows, Units::kRows)), 0);
    for (std::size_t warp = 0; warp < warps.size(); ++warp) {
      std::int32_t expected = warps[warp].row();
      warps[warp].for_each(rows, [&](std::int32_t row) {
        ASSERT_EQ(row, expected) << "warp " << warp << " of " << kWarps << ", side " << side;
        ASSERT_LT(row, rows);
        ASSERT_EQ(row % Units::kRows, 0);
        ++taken[static_cast<std::size_t>(row / Units::kRows)];
        ++had[warp];
        expected += Units::kStep;
      });
    }
    ASSERT_EQ(taken, std::vector<int>(taken.size(), 1)) << kWarps << " warps, side " << side;
    const auto [least, most] = std::minmax_element(had.begin(), had.end());
    ASSERT_LE(*most - *least, 1) << kWarps << " warps, side " << side;
  }
}

TEST(SideUnits, AreTakenOnceAndInTurns) {
  expect_turns<1>();
  expect_turns<3>();
  expect_turns<4>();
  expect_turns<7>();
}

}  // namespace
}  // namespace moesaic::math
