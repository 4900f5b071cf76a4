// SPDX-License-Identifier: Apache-2.0
// A Mixture-of-Experts layer over two simulated ranks: route maps, dispatch, the experts' product
// in place, combine, and the gradient of the input. Compared with the layer token by token.
#include "moesaic/expert_parallel.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace {

constexpr std::int64_t kTokens = 6, kWidth = 8, kRows = 15;  // kRows = ceil(1.25 * 6 * 2)
constexpr int kRanks = 2, kExperts = 4, kTopk = 2;

/// What one rank holds.
struct Rank {
  std::vector<float> x, probs, w;  // tokens, their weights, two experts' matrices
  std::vector<std::int32_t> ids, dst_ranks, dst_rows, offs;
  std::vector<float> buffer, expert_out, y, dx;
  moesaic::HostWorkspace workspace{0}, product_workspace{0};
};

/// Values in (-1, 1) that repeat on every machine.
std::vector<float> numbers(std::size_t count, std::uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8) / 8388608.0F - 1.0F;
  }
  return values;
}

std::vector<Rank> make_ranks(const moesaic::ExpertParallel& exchange,
                             const moesaic::GroupedGemm& product) {
  const std::vector<std::vector<std::int32_t>> ids = {
      {0, 1, 2, 3, 0, 2, 0, 3, 1, 2, 0, -1},  // of rank 0; -1: this slot is not used
      {3, 0, 0, 2, 1, 3, 0, 1, 0, 3, 0, 2}};
  std::vector<Rank> ranks(kRanks);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    Rank& rank = ranks[r];
    rank.ids = ids[r];
    rank.x = numbers(kTokens * kWidth, 10 + r);
    rank.probs = numbers(kTokens * kTopk, 20 + r);
    rank.w = numbers(kExperts / kRanks * kWidth * kWidth, 30 + r);
    rank.dst_ranks.resize(kTokens * kTopk);
    rank.dst_rows.resize(kTokens * kTopk);
    rank.offs.resize(kExperts / kRanks);
    rank.buffer.resize(kRows * kWidth);
    rank.expert_out.resize(kRows * kWidth);
    rank.y.resize(kTokens * kWidth);
    rank.dx.resize(kTokens * kWidth);
    rank.workspace = moesaic::HostWorkspace(exchange.workspace_bytes());
    rank.product_workspace = moesaic::HostWorkspace(product.workspace_bytes());
  }
  return ranks;
}

using moesaic::view;

moesaic::GroupedGemm plan_product(moesaic::Pass pass, std::int64_t rows) {
  moesaic::GroupedGemmProblem problem;
  problem.pass = pass;
  problem.format = moesaic::Format::f32;
  problem.d_dtype = moesaic::DType::f32;
  problem.num_experts = kExperts / kRanks;
  problem.max_rows = rows;
  problem.n = problem.k = kWidth;
  return moesaic::GroupedGemm::plan(problem, moesaic::query_device(moesaic::Device{}));
}

/// The experts' product of one rank, from one buffer into the other: in place, by device offsets.
void multiply(const moesaic::GroupedGemm& product, Rank& rank, std::vector<float>& from,
              std::vector<float>& to) {
  moesaic::GroupedGemmArgs args;
  args.a.qdata = view(std::span(from), {kRows, kWidth});
  args.b.qdata = view(std::span(rank.w), {kExperts / kRanks, kWidth, kWidth});
  args.offs = view(std::span(rank.offs), {kExperts / kRanks});
  args.d = view(std::span(to), {kRows, kWidth});
  product.execute(args, rank.product_workspace.get(), moesaic::Stream::cpu());
}

/// y[t] = sum over k of probs[t, k] * W_e x[t] with e = ids[t, k]: the layer without ranks.
double largest_error(const std::vector<Rank>& ranks) {
  double worst = 0;
  for (const Rank& rank : ranks) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (std::size_t n = 0; n < kWidth; ++n) {
        double want = 0;
        for (std::size_t k = 0; k < kTopk; ++k) {
          const std::int32_t expert = rank.ids[t * kTopk + k];
          if (expert < 0) continue;
          const Rank& owner = ranks[static_cast<std::size_t>(expert / 2)];
          const std::size_t local = static_cast<std::size_t>(expert % 2);
          for (std::size_t j = 0; j < kWidth; ++j) {
            want += static_cast<double>(rank.probs[t * kTopk + k]) *
                    owner.w[(local * kWidth + n) * kWidth + j] * rank.x[t * kWidth + j];
          }
        }
        worst = std::fmax(worst, std::fabs(want - rank.y[t * kWidth + n]));
      }
    }
  }
  return worst;
}

}  // namespace

int main() {
  // [plan]
  moesaic::ExpertParallelProblem problem;
  problem.format = moesaic::Format::f32;
  problem.num_experts = 4;  // two on each of two ranks
  problem.topk = 2;
  problem.max_tokens = 6;  // of any rank
  problem.d = 8;
  const auto group = moesaic::ExpertParallelGroup::simulated(2);
  const auto exchange = moesaic::ExpertParallel::plan(problem, group);
  // exchange.max_rows() is M = ceil(1.25 * 6 * 2) = 15 rows of every rank's buffer
  // [/plan]
  if (exchange.max_rows() != kRows) return 1;
  const moesaic::GroupedGemm product = plan_product(moesaic::Pass::forward, kRows);
  const moesaic::GroupedGemm dgrad = plan_product(moesaic::Pass::dgrad, kRows);
  std::vector<Rank> ranks = make_ranks(exchange, product);
  const moesaic::Stream cpu = moesaic::Stream::cpu();

  // [forward]
  std::vector<moesaic::RouteMapsArgs> maps(kRanks);
  std::vector<moesaic::DispatchPutArgs> put(kRanks);
  std::vector<moesaic::CombineGetArgs> get(kRanks);
  for (std::size_t r = 0; r < kRanks; ++r) {
    Rank& rank = ranks[r];
    maps[r].expert_ids = view(std::span(rank.ids), {6, 2});
    maps[r].dst_ranks = view(std::span(rank.dst_ranks), {6, 2});
    maps[r].dst_rows = view(std::span(rank.dst_rows), {6, 2});
    maps[r].offs = view(std::span(rank.offs), {2});
    maps[r].workspace = rank.workspace.get();
    put[r].input = view(std::span(rank.x), {6, 8});
    put[r].out = view(std::span(rank.buffer), {15, 8});
    put[r].dst_ranks = maps[r].dst_ranks;
    put[r].dst_rows = maps[r].dst_rows;
    put[r].workspace = maps[r].workspace;
    get[r].expert_out = view(std::span(rank.expert_out), {15, 8});
    get[r].out = view(std::span(rank.y), {6, 8});
    get[r].src_ranks = maps[r].dst_ranks;
    get[r].src_rows = maps[r].dst_rows;
    get[r].probs = view(std::span(rank.probs), {6, 2});
    get[r].workspace = maps[r].workspace;
  }
  exchange.route_maps(maps, cpu);
  exchange.dispatch_put(put, cpu);
  for (Rank& rank : ranks) multiply(product, rank, rank.buffer, rank.expert_out);
  exchange.combine_get(get, cpu);
  // [/forward]

  for (std::size_t r = 0; r < kRanks; ++r) {
    std::printf(
        "rank %zu: %d and %d rows, %lld routes dropped\n", r, ranks[r].offs[0],
        ranks[r].offs[1] - ranks[r].offs[0],
        static_cast<long long>(exchange.read_dropped_routes(ranks[r].workspace.get(), cpu)));
    if (exchange.read_fault(ranks[r].workspace.get(), cpu)) return 1;
  }
  const double worst = largest_error(ranks);
  std::printf("largest error: %.1e\n", worst);

  // [backward]
  // The gradient of y is y itself here. Weighted rows go to the experts, unweighted ones come back.
  for (std::size_t r = 0; r < kRanks; ++r) {
    put[r].input = view(std::span(ranks[r].y), {6, 8});
    put[r].out = view(std::span(ranks[r].expert_out), {15, 8});
    put[r].probs = get[r].probs;
    get[r].expert_out = view(std::span(ranks[r].buffer), {15, 8});
    get[r].out = view(std::span(ranks[r].dx), {6, 8});
    get[r].probs = {};
  }
  exchange.dispatch_put(put, cpu);
  for (Rank& rank : ranks) multiply(dgrad, rank, rank.expert_out, rank.buffer);
  exchange.combine_get(get, cpu);
  // [/backward]

  // <y, y> = <x, dx>, since the layer is linear in x.
  double yy = 0, xdx = 0;
  for (const Rank& rank : ranks) {
    for (std::size_t i = 0; i < rank.y.size(); ++i) {
      yy += static_cast<double>(rank.y[i]) * rank.y[i];
      xdx += static_cast<double>(rank.x[i]) * rank.dx[i];
    }
  }
  std::printf("<y, y> = %.6f, <x, dx> = %.6f\n", yy, xdx);
  return worst < 1e-5 && yy > 1 && std::fabs(yy - xdx) < 1e-4 * yy ? 0 : 1;
}
