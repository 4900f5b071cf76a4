// SPDX-License-Identifier: Apache-2.0
// Every operation between GPUs against the simulation, bit by bit, on hostile routings.

#include <gtest/gtest.h>

#include "ep/ep_run.hpp"
#include "support/expect_error.hpp"

namespace moesaic::ep_tests {
namespace {

using testing::exchange_problem;
using testing::RankIds;

constexpr DispatchForm kForms[] = {DispatchForm::direct, DispatchForm::fan_out};

class Exchange : public OnRanks {
 protected:
  [[nodiscard]] int count() const { return ranks().count; }

  /// Ids of every rank: ids(rank, token, slot), with tokens(rank) tokens.
  template <class Tokens, class Id>
  [[nodiscard]] RankIds make(int topk, const Tokens& tokens, const Id& id) const {
    RankIds all(static_cast<std::size_t>(count()));
    for (int rank = 0; rank < count(); ++rank) {
      for (std::int64_t token = 0; token < tokens(rank); ++token) {
        for (int slot = 0; slot < topk; ++slot) {
          all[static_cast<std::size_t>(rank)].push_back(id(rank, token, slot));
        }
      }
    }
    return all;
  }
  void check(ExpertParallelProblem problem, const RankIds& ids) {
    for (const DispatchForm form : kForms) {
      problem.dispatch = form;
      EpRun run(world(), ranks().rank, problem, ids, 11, stream());
      run.check_all();
      // Buffers and maps are used again, with what the last call left in them.
      run.check_all();
    }
  }
  static std::int32_t random_id(int rank, std::int64_t token, int slot, int experts) {
    std::uint32_t x = static_cast<std::uint32_t>(rank * 7919 + token * 131 + slot * 17 + 1);
    x = (x ^ (x >> 15)) * 2246822519U;
    x = (x ^ (x >> 13)) * 3266489917U;
    return static_cast<std::int32_t>((x >> 8) % static_cast<std::uint32_t>(experts));
  }
};

TEST_F(Exchange, RandomRoutingOfEveryTopkAndType) {
  for (const Format format : {Format::bf16, Format::f32}) {
    for (const int topk : {1, 2, 8}) {
      const int experts = 8 * count();
      check(exchange_problem(experts, topk, 300, 520, format),
            make(
                topk, [](int rank) { return 300 - 7 * rank; },
                [&](int r, std::int64_t t, int s) { return random_id(r, t, s, experts + 1) - 1; }));
    }
  }
}

/// More slots than a warp has lanes, and rows that are no whole pieces of a warp.
TEST_F(Exchange, FortySlots) {
  const int experts = 3 * count();
  for (const std::int64_t d : {64, 2056}) {
    check(exchange_problem(experts, 40, 20, d),
          make(
              40, [](int rank) { return 20 - rank; },
              [&](int r, std::int64_t t, int s) { return random_id(r, t, s, experts + 2) - 2; }));
  }
}

TEST_F(Exchange, ARankWithoutTokens) {
  const int experts = 4 * count();
  for (int empty = 0; empty < count(); ++empty) {
    check(exchange_problem(experts, 2, 64, 64),
          make(
              2, [&](int rank) { return rank == empty ? 0 : 64; },
              [&](int r, std::int64_t t, int s) { return random_id(r, t, s, experts); }));
  }
}

TEST_F(Exchange, NoTokensAtAll) {
  check(exchange_problem(4 * count(), 2, 64, 64), RankIds(static_cast<std::size_t>(count())));
}

TEST_F(Exchange, NoRoutes) {
  check(exchange_problem(4 * count(), 2, 64, 64),
        make(
            2, [](int) { return 64; }, [](int, std::int64_t, int) { return -1; }));
}

TEST_F(Exchange, AllToOneExpert) {
  auto problem = exchange_problem(4 * count(), 2, 64, 64);
  for (const std::int64_t factor : {1'250'000, count() * 1'000'000}) {  // dropped, and just full
    problem.capacity_factor_millionths = factor;
    for (const std::int32_t expert : {0, 4 * count() - 1}) {
      check(problem,
            make(
                2, [](int) { return 64; }, [&](int, std::int64_t, int) { return expert; }));
    }
  }
}

TEST_F(Exchange, AllToOneRank) {
  auto problem = exchange_problem(4 * count(), 2, 64, 64);
  for (int rank = 0; rank < count(); ++rank) {
    check(problem, make(
                       2, [](int) { return 64; },
                       [&](int, std::int64_t t, int s) {
                         return static_cast<std::int32_t>(4 * rank + (t + s) % 4);
                       }));
  }
}

TEST_F(Exchange, CapacityFullAndOneOver) {
  // c = 1: T * topk rows for each rank. Rank 0 gets exactly as many, or one more.
  for (const int over : {0, 1}) {
    auto problem = exchange_problem(2 * count(), 1, 40, 64);
    problem.capacity_factor_millionths = 1'000'000;
    check(problem,
          make(
              1, [](int) { return 40; },
              [&](int r, std::int64_t t, int) {
                const bool to_first = r == 0 || (r == 1 && t < over);
                return static_cast<std::int32_t>(to_first ? t % 2 : 2 * (r % count()) + t % 2);
              }));
  }
}

TEST_F(Exchange, OneRow) {
  for (const std::int64_t d : {8, 16, 4096}) {
    check(
        exchange_problem(count(), 1, 1, d),
        make(
            1, [](int) { return 1; }, [&](int r, std::int64_t, int) { return (r + 1) % count(); }));
  }
}

TEST_F(Exchange, EightThousandTokens) {
  const int experts = 64;
  if (experts % count() != 0) GTEST_SKIP() << "64 experts on " << count() << " ranks";
  auto problem = exchange_problem(experts, 8, 8192, 128);
  check(problem, make(
                     8, [](int) { return 8192; },
                     [&](int r, std::int64_t t, int s) {
                       const std::int32_t id = random_id(r, t, s, experts);
                       return t % 3 == 0 ? id / 8 : id;  // skewed
                     }));
}

TEST_F(Exchange, TheFormThatNobodyNamed) {
  const int experts = 8 * count();
  const auto ids = make(
      8, [](int rank) { return 24 - rank; },
      [&](int r, std::int64_t t, int s) { return random_id(r, t, s, experts); });
  for (const std::int64_t max_tokens : {24, 512}) {
    const auto problem = exchange_problem(experts, 8, max_tokens, 4096);
    EpRun run(world(), ranks().rank, problem, ids, 11, stream());
    EXPECT_EQ(run.exchange.dispatch_form(),
              count() > 1 && max_tokens == 512 ? DispatchForm::fan_out : DispatchForm::direct);
    run.check_all();
  }
}

TEST_F(Exchange, WrongIdsAndMapsAreFaults) {
  const int experts = 2 * count();
  auto ids = make(
      2, [](int) { return 16; },
      [&](int r, std::int64_t t, int s) { return random_id(r, t, s, experts); });
  for (auto& of_rank : ids) of_rank[9] = experts + 5;
  auto problem = exchange_problem(experts, 2, 16, 64);
  for (const DispatchForm form : kForms) {
    problem.dispatch = form;
    EpRun run(world(), ranks().rank, problem, ids, 5, stream());
    run.check_maps();
    for (auto& rank : run.wanted.ranks) {  // the same on all ranks, as the simulation needs
      rank.dst_ranks[3] = count();
      rank.dst_rows[3] = 0;
      rank.dst_ranks[4] = 0;
      rank.dst_rows[4] = static_cast<std::int32_t>(run.exchange.max_rows());
      rank.dst_ranks[5] = -1;
    }
    run.set_map(3, count(), 0);
    run.check_put(false);
    run.check_get(true);
    run.check_put(true);
  }
}

TEST_F(Exchange, ProbsOfSomeRanks) {
  const int experts = 2 * count();
  const auto ids = make(
      4, [](int) { return 40; },
      [&](int r, std::int64_t t, int s) { return random_id(r, t, s, experts); });
  auto problem = exchange_problem(experts, 4, 40, 264);
  for (const DispatchForm form : kForms) {
    problem.dispatch = form;
    EpRun run(world(), ranks().rank, problem, ids, 5, stream());
    run.check_maps();
    for (const int odd : {0, 1, 0}) {
      run.check_put_of([&](std::size_t rank) { return static_cast<int>(rank % 2) == odd; });
    }
  }
}

TEST_F(Exchange, AnEarlierErrorOfTheProcessIsNotOurs) {
  const auto ids = make(
      2, [](int) { return 16; },
      [&](int r, std::int64_t t, int s) { return random_id(r, t, s, 2 * count()); });
  EpRun run(world(), ranks().rank, exchange_problem(2 * count(), 2, 16, 64), ids, 5, stream());
  {
    const OwnDevice own;
    EXPECT_EQ(cudaMemset(nullptr, 0, 16), cudaErrorInvalidValue);
  }
  run.check_all();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue) << "whoever asks is still told";
}

TEST_F(Exchange, MemoryThatWasNotLeasedIsRefused) {
  const auto ids = make(
      1, [](int) { return 4; }, [](int, std::int64_t, int) { return 0; });
  EpRun run(world(), ranks().rank, exchange_problem(count(), 1, 4, 64), ids, 5, stream());
  const OnDevice other = run.rows_like(run.exchange.max_rows());
  auto args = run.put_args(false);
  args.out = other.view(DType::bf16, {run.exchange.max_rows(), 64});
  testing::expect_error(ErrorCode::invalid_argument, {"ranks[0].out", "leased"},
                        [&] { run.exchange.dispatch_put(std::vector{args}, stream()); });
  world().check(stream());
}

}  // namespace
}  // namespace moesaic::ep_tests
