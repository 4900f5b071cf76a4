// SPDX-License-Identifier: Apache-2.0
// Faults that only the data shows, barriers, and groups beside one another.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "support/exchange_run.hpp"

namespace moesaic::testing {
namespace {

// Two ranks, four experts, two slots; three and two tokens.
RankIds some_ids() { return {{0, 1, 2, 3, 0, 2}, {3, 3, 1, -1}}; }
ExpertParallelProblem some_problem() { return exchange_problem(4, 2, 3, 16); }

using Kind = RouteFault::Kind;

void expect_fault(const RouteFault& fault, Kind kind, std::int64_t token, int slot,
                  std::int64_t value) {
  EXPECT_EQ(static_cast<int>(fault.kind), static_cast<int>(kind));
  EXPECT_EQ(fault.token, token);
  EXPECT_EQ(fault.slot, slot);
  EXPECT_EQ(fault.value, value);
}

TEST(ExchangeFault, AnIdPastTheExpertsIsNoRouteAndRecorded) {
  RankIds ids = some_ids();
  ids[0][3] = 9;  // token 1, slot 1
  ids[0][4] = 4;
  ids[1][0] = -5;  // no route, no fault
  ExchangeRun run(some_problem(), ids);
  run.route_maps();
  EXPECT_EQ(run.ranks[0].dst_ranks[3], -1);
  EXPECT_EQ(run.ranks[0].dst_rows[3], -1);
  EXPECT_EQ(run.ranks[0].dst_rows[4], -1);
  EXPECT_EQ(run.ranks[0].offs.back() + run.ranks[1].offs.back(), 6);
  EXPECT_EQ(run.dropped(0), 0) << "it was not dropped: there was nowhere to go";
  expect_fault(run.fault(0), Kind::expert_out_of_range, 1, 1, 9);
  EXPECT_FALSE(run.fault(0)) << "reading clears";
  EXPECT_FALSE(run.fault(1));
}

TEST(ExchangeFault, TheLowestRouteIsKeptUntilItIsRead) {
  RankIds ids = some_ids();
  ids[0][5] = 7;
  ExchangeRun run(some_problem(), ids);
  run.route_maps();
  run.ranks[0].ids[1] = 8;
  run.route_maps();
  run.ranks[0].ids[1] = 0;
  run.route_maps();
  expect_fault(run.fault(0), Kind::expert_out_of_range, 0, 1, 8);
}

TEST(ExchangeFault, PutReportsARowPastTheBufferAndMovesTheOthers) {
  ExchangeRun run(some_problem(), some_ids());
  run.fill(5);
  run.route_maps();
  ASSERT_EQ(run.exchange.max_rows(), 8);
  const std::int32_t kept_row = run.ranks[0].dst_rows[0];
  run.ranks[0].dst_rows[1] = 8;
  const auto before = run.ranks[0].buffer.snapshot();
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
  expect_fault(run.fault(0), Kind::row_out_of_range, 0, 1, 8);
  EXPECT_EQ(run.ranks[0].buffer.get(0, kept_row, 3), run.ranks[0].x.get(0, 0, 3));
  EXPECT_EQ(run.ranks[0].buffer.stray_change(before,
                                             [&](auto, std::int64_t row, auto) { return row < 8; }),
            "");
}

TEST(ExchangeFault, GetMasksARowPastTheBuffer) {
  ExchangeRun run(some_problem(), some_ids());
  run.fill(5);
  run.route_maps();
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
  run.ranks[0].dst_rows[1] = 8;
  run.ranks[0].probs[1] = 1e30F;
  run.exchange.combine_get(run.get_args(true), Stream::cpu());
  EXPECT_FALSE(run.fault(0));
  const auto x = static_cast<float>(run.ranks[0].x.get(0, 0, 2));
  EXPECT_EQ(static_cast<float>(run.ranks[0].y.get(0, 0, 2)),
            static_cast<float>(BFloat16(run.ranks[0].probs[0] * x)));
  EXPECT_EQ(run.ranks[0].gathered.get(0, 1, 2), 0.0);
}

TEST(ExchangeFault, ARankPastTheGroupIsReportedByBoth) {
  for (const bool put : {true, false}) {
    ExchangeRun run(some_problem(), some_ids());
    run.fill(5);
    run.route_maps();
    run.ranks[1].dst_ranks[2] = 2;  // token 1, slot 0
    if (put) {
      run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
    } else {
      run.exchange.gather_get(run.gather_args(), Stream::cpu());
    }
    expect_fault(run.fault(1), Kind::rank_out_of_range, 1, 0, 2);
    EXPECT_FALSE(run.fault(0));
  }
}

TEST(ExchangeFault, EitherMapNegativeIsNoRoute) {
  ExchangeRun run(some_problem(), some_ids());
  run.fill(5);
  run.route_maps();
  run.ranks[0].dst_ranks[0] = -1;
  run.ranks[0].dst_rows[1] = -3;
  const std::int32_t masked_row = run.ranks[0].dst_rows[0];
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
  EXPECT_TRUE(std::isnan(run.ranks[0].buffer.get(0, masked_row, 0))) << "still poisoned";
  run.exchange.combine_get(run.get_args(true), Stream::cpu());
  for (std::int64_t j = 0; j < 16; ++j) EXPECT_EQ(run.ranks[0].y.bits(0, 0, j), 0u);
  EXPECT_FALSE(run.fault(0));
}

/// The records of a grouped product and of an exchange do not touch one another.
TEST(ExchangeFault, IsNoFaultOfAProduct) {
  RankIds ids = some_ids();
  ids[0][0] = 99;
  ExchangeRun run(some_problem(), ids);
  run.route_maps();
  EXPECT_FALSE(read_fault(run.ranks[0].workspace.get(), Stream::cpu()));
  EXPECT_TRUE(run.fault(0));
}

// ---- Barriers

TEST(ExchangeBarriers, DefaultsAreThoseOfTheContractAndCanBeOverridden) {
  ExchangeRun run(some_problem(), some_ids());
  run.fill(5);
  auto passed = [&, before = std::int64_t{0}]() mutable {
    const std::int64_t now = run.exchange.group().barriers();
    return now - std::exchange(before, now);
  };
  run.route_maps();
  EXPECT_EQ(passed(), 1) << "counts are exchanged";
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
  EXPECT_EQ(passed(), 1) << "behind a PUT";
  run.exchange.combine_get(run.get_args(true), Stream::cpu());
  EXPECT_EQ(passed(), 1) << "before a GET";
  run.exchange.combine_get_fused(run.get_args(true), Stream::cpu());
  EXPECT_EQ(passed(), 1);
  run.exchange.gather_get(run.gather_args(), Stream::cpu());
  EXPECT_EQ(passed(), 1);
  run.exchange.probs_grad(run.probs_grad_args(), Stream::cpu());
  EXPECT_EQ(passed(), 0);
  EXPECT_FALSE(PutOptions{}.pre_barrier);
  EXPECT_TRUE(PutOptions{}.post_barrier);
  EXPECT_TRUE(GetOptions{}.pre_barrier);
  EXPECT_FALSE(GetOptions{}.post_barrier);

  run.exchange.dispatch_put(run.put_args(false), Stream::cpu(),
                            {.pre_barrier = true, .post_barrier = true});
  EXPECT_EQ(passed(), 2);
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu(), {.post_barrier = false});
  EXPECT_EQ(passed(), 0);
  run.exchange.combine_get(run.get_args(true), Stream::cpu(),
                           {.pre_barrier = true, .post_barrier = true});
  EXPECT_EQ(passed(), 2);
}

TEST(ExchangeBarriers, TwoGroupsOfOneProcessAreApart) {
  ExchangeRun two(some_problem(), some_ids());
  ExchangeRun three(exchange_problem(6, 1, 4, 8), {{5, 0, 3}, {}, {2, 2, 2, 1}});
  two.fill(1);
  three.fill(2);
  two.route_maps();
  three.route_maps();
  three.exchange.dispatch_put(three.put_args(false), Stream::cpu());
  two.exchange.dispatch_put(two.put_args(false), Stream::cpu());
  three.exchange.combine_get(three.get_args(false), Stream::cpu());
  EXPECT_EQ(two.exchange.group().barriers(), 2);
  EXPECT_EQ(three.exchange.group().barriers(), 3);
  EXPECT_EQ(bit_difference(three.ranks[2].y, three.ranks[2].x), "");
}

}  // namespace
}  // namespace moesaic::testing
