// SPDX-License-Identifier: Apache-2.0
// Several groups in one process, of equal and of uneven size; what ranks must agree on.

#include <gtest/gtest.h>

#include <algorithm>

#include "ep/ep_run.hpp"
#include "support/expect_error.hpp"

namespace moesaic::ep_tests {
namespace {

using testing::exchange_problem;
using testing::expect_error;
using testing::RankIds;

/// Everyone sends to everyone.
RankIds spread(std::size_t ranks, std::int64_t tokens, int experts) {
  RankIds ids(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::int64_t t = 0; t < tokens + static_cast<std::int64_t>(r); ++t) {
      ids[r].push_back(static_cast<std::int32_t>((t * 5 + static_cast<std::int64_t>(r)) % experts));
    }
  }
  return ids;
}

class Groups : public OnRanks {};

TEST_F(Groups, TwoOfAllRanksTakeTurns) {
  std::vector<int> backwards = all_ranks();
  std::reverse(backwards.begin(), backwards.end());
  const auto first = make_group(all_ranks()), second = make_group(backwards);
  const int own = ranks().count - 1 - ranks().rank;
  const int experts = 2 * ranks().count;
  const auto ids = spread(static_cast<std::size_t>(ranks().count), 50, experts);
  const auto problem = exchange_problem(experts, 1, 64, 256);
  auto fan_out = problem;
  fan_out.dispatch = DispatchForm::fan_out;
  EpRun a(first, ranks().rank, problem, ids, 1, stream());
  EpRun b(second, own, fan_out, ids, 2, stream());
  for (int turn = 0; turn < 3; ++turn) {
    a.check_maps();
    b.check_maps();
    a.check_put(false);
    b.check_put(true);
    b.check_get(true);
    a.check_put(true);
    a.check_get(false);
  }
  EXPECT_NE(first.barriers(), 0);
  first.check(stream());
  second.check(stream());
}

TEST_F(Groups, UnevenSharesWorkAtOnce) {
  // The last rank alone, and all others.
  std::vector<int> members = all_ranks();
  const int last = members.back();
  members.pop_back();
  if (ranks().rank == last) members = {last};
  const auto group = make_group(members);
  const auto place = std::find(members.begin(), members.end(), ranks().rank) - members.begin();
  const int experts = 3 * static_cast<int>(members.size());
  EpRun run(group, static_cast<int>(place), exchange_problem(experts, 1, 64, 128),
            spread(members.size(), 40, experts), 3, stream());
  run.check_all();
}

TEST_F(Groups, ADifferenceBetweenRanksIsNamed) {
  if (ranks().count < 2) GTEST_SKIP() << "needs two ranks";
  const auto group = make_group(all_ranks());
  // Whichever two ranks a rank sees differ, they say 8 and 9.
  const auto problem = exchange_problem(ranks().count, 1, 8 + ranks().rank % 2, 64);
  expect_error(ErrorCode::invalid_argument, {"problem of plan", "T = 8", "T = 9"},
               [&] { static_cast<void>(ExpertParallel::plan(problem, group)); });
  auto form = exchange_problem(ranks().count, 1, 8, 64);
  form.dispatch = ranks().rank % 2 == 0 ? DispatchForm::direct : DispatchForm::fan_out;
  const auto forms = make_group(all_ranks());
  expect_error(ErrorCode::invalid_argument, {"problem of plan", "= direct", "= fan_out"},
               [&] { static_cast<void>(ExpertParallel::plan(form, forms)); });
  // Also where the form that was left to the plan comes to the one that others name.
  form.dispatch = ranks().rank % 2 == 0 ? DispatchForm::direct : DispatchForm::automatic;
  const auto unnamed = make_group(all_ranks());
  expect_error(ErrorCode::invalid_argument, {"problem of plan", "= direct", "= auto (direct)"},
               [&] { static_cast<void>(ExpertParallel::plan(form, unnamed)); });
  const auto other = make_group(all_ranks());
  expect_error(ErrorCode::invalid_argument, {"size_bytes", "256", "512"},
               [&] { static_cast<void>(other.lease(ranks().rank % 2 == 0 ? 256 : 512)); });
  meet();
}

TEST_F(Groups, LeasesComeBackAndEndWithTheHeap) {
  const auto group = make_group(all_ranks());
  const SymmetricBuffer one = group.lease(1 << 20), two = group.lease(1 << 20);
  EXPECT_NE(one.data, two.data);
  group.release(one);
  expect_error(ErrorCode::invalid_argument, {"buffer", "released before"},
               [&] { group.release(one); });
  EXPECT_EQ(group.lease(1 << 20).id, one.id);
  EXPECT_EQ(group.pool_usage().high_water_bytes, std::size_t{2} << 20);
  expect_error(ErrorCode::device_failure, {"buffer", "heap_bytes"},
               [&] { static_cast<void>(group.lease(2 * kHeapBytes)); });
  meet();
}

}  // namespace
}  // namespace moesaic::ep_tests
