// SPDX-License-Identifier: Apache-2.0
// Expert parallelism on a simulated group: where rows land, what comes back, what is left alone.
#include "moesaic/expert_parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "support/exchange_run.hpp"

namespace moesaic::testing {
namespace {

RankIds random_ids(std::uint32_t seed, const std::vector<std::int64_t>& tokens, int topk,
                   std::int32_t low, std::int32_t high) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> id(low, high);
  RankIds ids;
  for (const std::int64_t count : tokens) {
    std::vector<std::int32_t> of_rank(static_cast<std::size_t>(count * topk));
    for (std::int32_t& value : of_rank) value = id(random);
    ids.push_back(std::move(of_rank));
  }
  return ids;
}

struct Case {
  const char* what;
  ExpertParallelProblem problem;
  RankIds ids;
  std::int64_t dropped = 0;  ///< Of all ranks; -1: not foretold.
};

ExpertParallelProblem with_factor(ExpertParallelProblem problem, std::int64_t millionths) {
  problem.capacity_factor_millionths = millionths;
  return problem;
}

/// Two ranks, six routes each, all to expert 1: rank 0 gets 12 rows.
RankIds all_to_one() { return {std::vector<std::int32_t>(6, 1), std::vector<std::int32_t>(6, 1)}; }

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"spread over four ranks", exchange_problem(8, 2, 9, 16),
       random_ids(1, {9, 9, 9, 9}, 2, 0, 7), -1},
      {"uneven ranks, one without tokens", exchange_problem(6, 2, 12, 16),
       random_ids(2, {12, 0, 5}, 2, 0, 5), -1},
      {"no token anywhere", exchange_problem(6, 2, 12, 16), {{}, {}, {}}, 0},
      {"no tokens at all", exchange_problem(4, 2, 0, 16), {{}, {}}, 0},
      {"all -1", exchange_problem(4, 2, 3, 16), random_ids(3, {3, 3}, 2, -1, -1), 0},
      {"all to one expert, exactly full", with_factor(exchange_problem(4, 2, 3, 16), 2'000'000),
       all_to_one(), 0},
      {"all to one expert, one over",
       with_factor(exchange_problem(4, 2, 3, 16), 11 * 1'000'000 / 6), all_to_one(), 1},
      {"all to one rank, most dropped", with_factor(exchange_problem(8, 4, 16, 16), 500'000),
       random_ids(4, {16, 16, 16, 16}, 4, 2, 3), 4 * 64 - 32},
      {"topk 1", exchange_problem(4, 1, 20, 8), random_ids(5, {20, 17}, 1, 0, 3), -1},
      {"topk 8, ids that are no route among them", exchange_problem(16, 8, 20, 8),
       random_ids(6, {20, 20}, 8, -4, 15), -1},
      {"one rank", exchange_problem(4, 2, 10, 24), random_ids(7, {10}, 2, 0, 3), 0},
      {"one token", exchange_problem(2, 1, 1, 8), {{1}, {0}}, 0},
      {"a token to one expert twice",
       with_factor(exchange_problem(2, 2, 2, 8), 2'000'000),
       {{1, 1, 0, 0}, {1, 1, 1, 1}},
       0},
      {"one expert a rank, 16 ranks", exchange_problem(16, 2, 4, 8),
       random_ids(8, std::vector<std::int64_t>(16, 4), 2, 0, 15), -1},
      {"8,192 rows a rank", exchange_problem(64, 8, 1024, 8), random_ids(9, {1024, 1024}, 8, 0, 63),
       -1},
      {"f32", exchange_problem(8, 2, 9, 16, Format::f32), random_ids(10, {9, 4, 9, 1}, 2, -1, 7),
       -1},
  };
  return kCases;
}

/// The row that a route was put into.
const RankData& peer_of(const ExchangeRun& run, const RankData& data, std::size_t route) {
  return run.ranks[static_cast<std::size_t>(data.dst_ranks[route])];
}

class Exchange : public ::testing::TestWithParam<Case> {};

TEST_P(Exchange, MapsKeepEachRouteOnceInOrder) {
  const Case& c = GetParam();
  ExchangeRun run(c.problem, c.ids);
  run.route_maps();
  run.route_maps();  // of what the first one left nothing remains
  std::int64_t kept = 0, valid = 0, dropped = 0, rows = 0;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankData& data = run.ranks[rank];
    for (std::size_t route = 0; route < data.ids.size(); ++route) {
      const bool is_route = data.ids[route] >= 0;
      valid += is_route ? 1 : 0;
      ASSERT_EQ(data.dst_ranks[route] < 0, data.dst_rows[route] < 0);
      if (!run.kept(data, route)) {
        ASSERT_EQ(data.dst_ranks[route], -1);
        ASSERT_EQ(data.dst_rows[route], -1);
        continue;
      }
      ++kept;
      ASSERT_EQ(data.dst_ranks[route], data.ids[route] / run.exchange.local_experts());
      // The inverse maps lead back: no other route has this row.
      const RankData& peer = peer_of(run, data, route);
      const auto row = static_cast<std::size_t>(data.dst_rows[route]);
      ASSERT_EQ(peer.src_ranks[row], static_cast<std::int32_t>(rank));
      ASSERT_EQ(peer.src_routes[row], static_cast<std::int32_t>(route));
    }
    dropped += run.dropped(rank);
    ASSERT_EQ(std::accumulate(data.kept.begin(), data.kept.end(), 0), data.offs.back());
    rows += data.offs.back();
    for (std::size_t row = 0; row < data.src_ranks.size(); ++row) {
      const bool filled = row < static_cast<std::size_t>(data.offs.back());
      ASSERT_EQ(data.src_ranks[row] >= 0, filled) << "row " << row << " of rank " << rank;
      ASSERT_EQ(data.src_routes[row] >= 0, filled);
      if (!filled) {
        ASSERT_EQ(data.src_ranks[row], -1);
        ASSERT_EQ(data.src_routes[row], -1);
      }
    }
    EXPECT_FALSE(run.fault(rank));
  }
  EXPECT_EQ(rows, kept);
  EXPECT_EQ(valid, kept + dropped);
  if (c.dropped >= 0) {
    EXPECT_EQ(dropped, c.dropped);
  }
}

TEST_P(Exchange, RowsOfOneExpertLieTogetherBySource) {
  const Case& c = GetParam();
  ExchangeRun run(c.problem, c.ids);
  run.route_maps();
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankData& data = run.ranks[rank];
    std::int32_t begin = 0;
    for (std::size_t local = 0; local < data.offs.size(); ++local) {
      std::pair<std::int32_t, std::int32_t> before{-1, -1};
      for (std::int32_t row = begin; row < data.offs[local]; ++row) {
        const std::pair here{data.src_ranks[static_cast<std::size_t>(row)],
                             data.src_routes[static_cast<std::size_t>(row)]};
        ASSERT_LT(before, here);
        before = here;
        const RankData& source = run.ranks[static_cast<std::size_t>(here.first)];
        ASSERT_EQ(source.ids[static_cast<std::size_t>(here.second)],
                  static_cast<std::int32_t>(rank * data.offs.size() + local));
      }
      begin = data.offs[local];
    }
  }
}

/// The problem in each form of dispatch, unweighted and weighted.
template <class Body>
void in_each_form(ExpertParallelProblem problem, const Body& body) {
  for (const DispatchForm form : {DispatchForm::direct, DispatchForm::fan_out}) {
    for (const bool weighted : {false, true}) {
      SCOPED_TRACE(std::string(name(form)) + (weighted ? ", weighted" : ""));
      problem.dispatch = form;
      body(problem, weighted);
    }
  }
}

TEST_P(Exchange, DispatchPutsEachRowAndNothingElse) {
  const Case& c = GetParam();
  in_each_form(c.problem, [&](const ExpertParallelProblem& problem, bool weighted) {
    ExchangeRun run(problem, c.ids, kScattered);
    run.fill(21);
    run.route_maps();
    std::vector<std::vector<std::byte>> before;
    for (const RankData& data : run.ranks) before.push_back(data.buffer.snapshot());
    run.exchange.dispatch_put(run.put_args(weighted), Stream::cpu());
    for (const RankData& data : run.ranks) {
      for (std::size_t route = 0; route < data.ids.size(); ++route) {
        if (!run.kept(data, route)) continue;
        const RankData& peer = peer_of(run, data, route);
        const auto token = static_cast<std::int64_t>(route) / c.problem.topk;
        for (std::int64_t j = 0; j < c.problem.d; ++j) {
          const auto value = static_cast<float>(data.x.get(0, token, j));
          const float exact = weighted ? data.probs[route] * value : value;
          const float wanted =
              c.problem.format == Format::f32 ? exact : static_cast<float>(BFloat16(exact));
          ASSERT_EQ(static_cast<float>(peer.buffer.get(0, data.dst_rows[route], j)), wanted);
        }
      }
    }
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const RankData& data = run.ranks[rank];
      EXPECT_EQ(
          data.buffer.stray_change(
              before[rank], [&](auto, std::int64_t row, auto) { return row < data.offs.back(); }),
          "")
          << "rank " << rank;
    }
  });
}

/// What combine must give for one element: fused multiply-adds from zero, k ascending.
float combined(const ExchangeRun& run, const RankData& data, std::int64_t token, std::int64_t j,
               bool weighted) {
  float sum = 0;
  for (int slot = 0; slot < run.problem().topk; ++slot) {
    const auto route = static_cast<std::size_t>(token * run.problem().topk + slot);
    if (!run.kept(data, route)) continue;
    const auto value =
        static_cast<float>(peer_of(run, data, route).buffer.get(0, data.dst_rows[route], j));
    sum = weighted ? std::fma(data.probs[route], value, sum) : sum + value;
  }
  return run.problem().format == Format::f32 ? sum : static_cast<float>(BFloat16(sum));
}

TEST_P(Exchange, CombineSumsSlotsInOrderAndRoundsOnce) {
  const Case& c = GetParam();
  for (const bool weighted : {false, true}) {
    for (const bool fused : {false, true}) {
      ExchangeRun run(c.problem, c.ids, kScattered);
      run.fill(22);
      run.route_maps();
      run.exchange.dispatch_put(run.put_args(true), Stream::cpu());  // rows that are not all alike
      // What was left out must not reach a sum: a poisoned probability, poisoned rows of the tail.
      for (RankData& data : run.ranks) {
        for (std::size_t route = 0; route < data.ids.size(); ++route) {
          if (!run.kept(data, route)) data.probs[route] = NAN;
        }
      }
      const auto args = run.get_args(weighted);
      fused ? run.exchange.combine_get_fused(args, Stream::cpu())
            : run.exchange.combine_get(args, Stream::cpu());
      for (const RankData& data : run.ranks) {
        for (std::int64_t token = 0; token < data.tokens; ++token) {
          for (std::int64_t j = 0; j < c.problem.d; ++j) {
            ASSERT_EQ(static_cast<float>(data.y.get(0, token, j)),
                      combined(run, data, token, j, weighted))
                << "token " << token << ", column " << j;
          }
        }
        for (std::size_t route = 0; route < data.ids.size(); ++route) {
          const auto at = static_cast<std::int64_t>(route);
          for (std::int64_t j = 0; j < c.problem.d; ++j) {
            const double wanted =
                run.kept(data, route)
                    ? peer_of(run, data, route).buffer.get(0, data.dst_rows[route], j)
                    : 0.0;
            ASSERT_EQ(data.gathered.get(0, at, j), wanted);
          }
        }
      }
    }
  }
}

TEST_P(Exchange, GatherIsCombineWithoutTheSum) {
  const Case& c = GetParam();
  ExchangeRun run(c.problem, c.ids, kScattered);
  run.fill(23);
  run.route_maps();
  run.exchange.dispatch_put(run.put_args(true), Stream::cpu());
  run.exchange.gather_get(run.gather_args(), Stream::cpu());
  std::vector<HostTensor> gathered;
  for (RankData& data : run.ranks) gathered.push_back(std::move(data.gathered));
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    run.ranks[rank].gathered =
        HostTensor(gathered[rank].dtype(), 0, gathered[rank].rows(), c.problem.d, kScattered);
  }
  run.exchange.combine_get(run.get_args(false), Stream::cpu());
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    EXPECT_EQ(bit_difference(gathered[rank], run.ranks[rank].gathered), "");
  }
}

/// With probabilities of one and experts that change nothing, a token comes back once per kept
/// slot.
TEST_P(Exchange, ThereAndBackIsTopkTimesX) {
  const Case& c = GetParam();
  ExchangeRun run(c.problem, c.ids);
  run.fill(24);
  for (RankData& data : run.ranks) std::fill(data.probs.begin(), data.probs.end(), 1.0F);
  run.route_maps();
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
  run.exchange.combine_get(run.get_args(true), Stream::cpu());
  for (const RankData& data : run.ranks) {
    for (std::int64_t token = 0; token < data.tokens; ++token) {
      const auto begin = data.dst_rows.begin() + token * c.problem.topk;
      const auto kept = static_cast<float>(
          std::count_if(begin, begin + c.problem.topk, [](std::int32_t row) { return row >= 0; }));
      for (std::int64_t j = 0; j < c.problem.d; ++j) {
        const auto x = static_cast<float>(data.x.get(0, token, j));
        if (c.problem.format == Format::f32) {
          ASSERT_NEAR(data.y.get(0, token, j), kept * x, 1e-6 * std::abs(kept * x));
        } else {  // the sum of equal BF16 values is exact in FP32
          ASSERT_EQ(static_cast<float>(data.y.get(0, token, j)),
                    static_cast<float>(BFloat16(kept * x)));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Exchange, ::testing::ValuesIn(cases()), [](const auto& instance) {
  std::string name;
  for (const char* c = instance.param.what; *c != '\0'; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  }
  return name;
});

}  // namespace
}  // namespace moesaic::testing
