// SPDX-License-Identifier: Apache-2.0
// The backward of dispatch and combine is made of the same operations: each is the adjoint of its
// forward, and the gradient of probs is that of the sum.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "support/exchange_run.hpp"

namespace moesaic::testing {
namespace {

RankIds ids_of(std::uint32_t seed, int ranks, int tokens, int topk, int experts) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> id(-1, experts - 1);
  RankIds ids(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    ids[rank].resize((static_cast<std::size_t>(tokens) - rank) * static_cast<std::size_t>(topk));
    for (std::int32_t& value : ids[rank]) value = id(random);
  }
  return ids;
}

/// Small whole numbers, so that all sums are exact.
void fill_whole(HostTensor& tensor, std::mt19937& random) {
  std::uniform_int_distribution<int> value(-4, 4);
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    for (std::int64_t j = 0; j < tensor.columns(); ++j) tensor.set(0, row, j, value(random));
  }
}

double inner(const HostTensor& a, const HostTensor& b, std::int64_t rows) {
  double sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < a.columns(); ++j) sum += a.get(0, row, j) * b.get(0, row, j);
  }
  return sum;
}

class ExchangeGradient : public ::testing::TestWithParam<Format> {
 protected:
  static ExchangeRun run_of(std::uint32_t seed) {
    ExpertParallelProblem problem = exchange_problem(6, 3, 10, 16, GetParam());
    problem.capacity_factor_millionths = 900'000;  // some routes are dropped
    ExchangeRun run(problem, ids_of(seed, 3, 10, 3, 6));
    std::mt19937 random(seed);
    for (RankData& data : run.ranks) {
      fill_whole(data.x, random);
      std::uniform_int_distribution<int> eighth(1, 8);
      for (float& p : data.probs) p = static_cast<float>(eighth(random)) / 8.0F;
    }
    run.route_maps();
    return run;
  }
};

/// <dispatch(x), dy> = <x, dispatch^T(dy)>, exactly.
TEST_P(ExchangeGradient, OfDispatchIsCombineWithoutProbs) {
  ExchangeRun run = run_of(31);
  run.exchange.dispatch_put(run.put_args(false), Stream::cpu());
  std::mt19937 random(32);
  double forward = 0;
  for (RankData& data : run.ranks) {
    HostTensor dy(data.buffer.dtype(), 0, data.buffer.rows(), data.buffer.columns());
    fill_whole(dy, random);
    forward += inner(data.buffer, dy, data.offs.back());
    data.buffer = std::move(dy);
  }
  run.exchange.combine_get(run.get_args(false), Stream::cpu());  // dx is in y
  double backward = 0;
  for (const RankData& data : run.ranks) backward += inner(data.x, data.y, data.tokens);
  EXPECT_NE(forward, 0.0);
  EXPECT_EQ(forward, backward);
}

/// <combine(h), dy> = <h, combine^T(dy)>, exactly.
TEST_P(ExchangeGradient, OfCombineIsWeightedDispatch) {
  ExchangeRun run = run_of(33);
  std::mt19937 random(34);
  for (RankData& data : run.ranks) fill_whole(data.buffer, random);
  run.exchange.combine_get(run.get_args(true), Stream::cpu());
  double forward = 0;
  std::vector<HostTensor> h;
  for (RankData& data : run.ranks) {  // x is dy
    // In BF16 the sum over slots is rounded: take it again without.
    for (std::int64_t token = 0; token < data.tokens; ++token) {
      for (int slot = 0; slot < 3; ++slot) {
        const std::int64_t route = token * 3 + slot;
        for (std::int64_t j = 0; j < 16; ++j) {
          forward += static_cast<double>(data.probs[static_cast<std::size_t>(route)]) *
                     data.gathered.get(0, route, j) * data.x.get(0, token, j);
        }
      }
    }
    h.push_back(std::move(data.buffer));
    data.buffer = HostTensor(h.back().dtype(), 0, h.back().rows(), h.back().columns());
  }
  run.exchange.dispatch_put(run.put_args(true), Stream::cpu());
  double backward = 0;
  for (std::size_t rank = 0; rank < h.size(); ++rank) {
    backward += inner(h[rank], run.ranks[rank].buffer, run.ranks[rank].offs.back());
  }
  EXPECT_NE(forward, 0.0);
  EXPECT_EQ(forward, backward);
}

TEST_P(ExchangeGradient, OfProbsIsThatOfTheSum) {
  ExchangeRun run = run_of(35);
  std::mt19937 random(36);
  for (RankData& data : run.ranks) fill_whole(data.buffer, random);
  run.exchange.combine_get(run.get_args(true), Stream::cpu());
  for (RankData& data : run.ranks) fill_whole(data.y, random);  // dout
  run.exchange.probs_grad(run.probs_grad_args(), Stream::cpu());
  // combine is linear in probs: a difference of any width is exact.
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankData& data = run.ranks[rank];
    for (std::size_t route = 0; route < data.ids.size(); ++route) {
      double wanted = 0;
      if (run.kept(data, route)) {
        const RankData& peer = run.ranks[static_cast<std::size_t>(data.dst_ranks[route])];
        for (std::int64_t j = 0; j < 16; ++j) {
          wanted += peer.buffer.get(0, data.dst_rows[route], j) *
                    data.y.get(0, static_cast<std::int64_t>(route) / 3, j);
        }
      }
      ASSERT_EQ(data.dprobs[route], static_cast<float>(wanted)) << "route " << route;
    }
  }
}

/// Where combine left an entry out the gradient is zero, whatever dout is.
TEST_P(ExchangeGradient, OfProbsThatWereLeftOutIsZero) {
  ExchangeRun run = run_of(37);
  for (RankData& data : run.ranks) data.buffer.fill(1.0);
  run.exchange.gather_get(run.gather_args(), Stream::cpu());
  for (RankData& data : run.ranks) data.y.fill(INFINITY);
  run.exchange.probs_grad(run.probs_grad_args(), Stream::cpu());
  std::int64_t left_out = 0;
  for (const RankData& data : run.ranks) {
    for (std::size_t route = 0; route < data.ids.size(); ++route) {
      left_out += run.kept(data, route) ? 0 : 1;
      ASSERT_EQ(data.dprobs[route], run.kept(data, route) ? INFINITY : 0.0F);
    }
  }
  EXPECT_GT(left_out, 5);
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeGradient, ::testing::Values(Format::bf16, Format::f32),
                         [](const auto& instance) { return std::string(name(instance.param)); });

}  // namespace
}  // namespace moesaic::testing
