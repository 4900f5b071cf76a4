// SPDX-License-Identifier: Apache-2.0
// Dispatch by fan-out beside direct dispatch on a simulated group: the same bits, the same faults,
// one more barrier; also where the first route of a token is no route or a wrong one.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "support/exchange_run.hpp"

namespace moesaic::testing {
namespace {

ExpertParallelProblem in_form(ExpertParallelProblem problem, DispatchForm form) {
  problem.dispatch = form;
  return problem;
}

/// The same problem in both forms, with the same tokens, routes and probabilities.
struct Both {
  Both(const ExpertParallelProblem& problem, const RankIds& ids)
      : direct(in_form(problem, DispatchForm::direct), ids),
        fan_out(in_form(problem, DispatchForm::fan_out), ids) {
    for (ExchangeRun* run : {&direct, &fan_out}) {
      run->fill(17);
      run->route_maps();
    }
  }
  template <class Change>
  void change(const Change& change) {
    change(direct);
    change(fan_out);
  }
  /// Every bit of every row, rows without a route among them.
  void expect_equal() {
    for (const bool weighted : {false, true, false}) {
      direct.exchange.dispatch_put(direct.put_args(weighted), Stream::cpu());
      fan_out.exchange.dispatch_put(fan_out.put_args(weighted), Stream::cpu());
      for (std::size_t rank = 0; rank < direct.ranks.size(); ++rank) {
        EXPECT_EQ(bit_difference(fan_out.ranks[rank].buffer, direct.ranks[rank].buffer), "")
            << "rank " << rank << (weighted ? ", weighted" : "");
        const RouteFault got = fan_out.fault(rank), want = direct.fault(rank);
        EXPECT_EQ(got.kind, want.kind);
        EXPECT_EQ(got.token, want.token);
        EXPECT_EQ(got.slot, want.slot);
        EXPECT_EQ(got.value, want.value);
      }
    }
  }

  ExchangeRun direct, fan_out;
};

RankIds random_ids(std::vector<std::int64_t> tokens, int topk, std::int32_t low,
                   std::int32_t high) {
  std::mt19937 random(8);
  std::uniform_int_distribution<std::int32_t> id(low, high);
  RankIds ids;
  for (const std::int64_t count : tokens) {
    std::vector<std::int32_t> of_rank(static_cast<std::size_t>(count * topk));
    for (std::int32_t& value : of_rank) value = id(random);
    ids.push_back(std::move(of_rank));
  }
  return ids;
}

TEST(FanOut, HasTheBitsOfDirectDispatch) {
  for (const Format format : {Format::bf16, Format::f32}) {
    for (const int topk : {1, 2, 8, 40}) {
      Both both(exchange_problem(12, topk, 30, 24, format),
                random_ids({30, 0, 21}, topk, topk < 40 ? 0 : -2, 11));
      both.expect_equal();
    }
  }
}

TEST(FanOut, WhereTheFirstRouteIsDropped) {
  // Rank 0 gets tokens of all, and has room for a part of them: the last experts' rows are dropped,
  // which are the first slots of their tokens.
  auto problem = exchange_problem(6, 3, 20, 16);
  problem.capacity_factor_millionths = 700'000;
  RankIds ids(2);
  for (auto& of_rank : ids) {
    for (int token = 0; token < 20; ++token) of_rank.insert(of_rank.end(), {2, 0, 1});
  }
  Both both(problem, ids);
  const RankData& source = both.fan_out.ranks[1];
  ASSERT_LT(source.dst_rows[0], 0);
  ASSERT_GE(source.dst_rows[1], 0);
  both.expect_equal();
}

TEST(FanOut, WhereMapsAreWrongOrMasked) {
  Both both(exchange_problem(8, 4, 12, 16), random_ids({12, 12}, 4, 0, 7));
  both.change([](ExchangeRun& run) {
    for (RankData& data : run.ranks) {
      data.dst_rows[0] = static_cast<std::int32_t>(run.exchange.max_rows());
      data.dst_ranks[9] = 2;
      data.dst_ranks[12] = -1;
      data.dst_rows[16] = -3;
      data.dst_ranks[20] = 1 << 30;
    }
  });
  both.expect_equal();
}

TEST(FanOut, TakesMapsOfItsCaller) {
  Both both(exchange_problem(4, 6, 10, 16), random_ids({10, 10, 10, 10}, 6, -1, -1));
  both.change([](ExchangeRun& run) {
    // Any rank, each of its rows once, in no order.
    const auto rows = static_cast<std::size_t>(run.exchange.max_rows());
    std::vector<std::vector<std::int32_t>> free(run.ranks.size(), std::vector<std::int32_t>(rows));
    std::mt19937 random(4);
    for (auto& of_rank : free) {
      std::iota(of_rank.begin(), of_rank.end(), 0);
      std::shuffle(of_rank.begin(), of_rank.end(), random);
    }
    for (RankData& data : run.ranks) {
      for (std::size_t route = 0; route < data.dst_ranks.size(); ++route) {
        const std::size_t rank = random() % run.ranks.size();
        if (free[rank].empty()) continue;
        data.dst_ranks[route] = static_cast<std::int32_t>(rank);
        data.dst_rows[route] = free[rank].back();
        free[rank].pop_back();
      }
    }
  });
  both.expect_equal();
}

TEST(FanOut, WhereSomeRanksHaveProbs) {
  Both both(exchange_problem(6, 4, 12, 16), random_ids({12, 12, 12}, 4, 0, 5));
  for (ExchangeRun* run : {&both.direct, &both.fan_out}) {
    auto args = run->put_args(true);
    args[1].probs = {};
    run->exchange.dispatch_put(args, Stream::cpu());
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(bit_difference(both.fan_out.ranks[rank].buffer, both.direct.ranks[rank].buffer), "");
  }
}

/// The form that nobody named, with few tokens in a call whether T is small or large.
TEST(FanOut, OrDirectWhenNoneIsNamed) {
  struct Size {
    std::int64_t max_tokens;
    DispatchForm form;
    std::int64_t barriers;
  };
  for (const Size& size :
       {Size{40, DispatchForm::direct, 1}, Size{256, DispatchForm::fan_out, 2}}) {
    const auto problem = exchange_problem(8, 8, size.max_tokens, 4096);
    const auto ids = random_ids({40, 13}, 8, -1, 7);
    ExchangeRun run(problem, ids);
    ASSERT_EQ(run.exchange.dispatch_form(), size.form);
    run.fill(17);
    run.route_maps();
    Both both(problem, ids);
    both.expect_equal();  // the last call is without probs
    const std::int64_t before = run.exchange.group().barriers();
    run.exchange.dispatch_put(run.put_args(true), Stream::cpu());
    run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
    EXPECT_EQ(run.exchange.group().barriers() - before, 2 * size.barriers);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(bit_difference(run.ranks[rank].buffer, both.direct.ranks[rank].buffer), "");
    }
  }
}

TEST(FanOut, HasABarrierOfItsOwn) {
  Both both(exchange_problem(4, 2, 3, 16), {{0, 1, 2, 3, 0, 2}, {3, 3, 1, -1}});
  const auto passed = [&](ExchangeRun& run, const PutOptions& options) {
    const std::int64_t before = run.exchange.group().barriers();
    run.exchange.dispatch_put(run.put_args(false), Stream::cpu(), options);
    return run.exchange.group().barriers() - before;
  };
  EXPECT_EQ(passed(both.direct, {}), 1);
  EXPECT_EQ(passed(both.fan_out, {}), 2);
  EXPECT_EQ(passed(both.fan_out, {.pre_barrier = true}), 3);
  EXPECT_EQ(passed(both.fan_out, {.post_barrier = false}), 1);
}

}  // namespace
}  // namespace moesaic::testing
