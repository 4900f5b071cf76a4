// SPDX-License-Identifier: Apache-2.0
// All ranks of a simulated exchange with their buffers, poisoned before use, and the routing given
// as expert ids per rank.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "moesaic/expert_parallel.hpp"
#include "moesaic/workspace.hpp"
#include "support/host_tensor.hpp"

namespace moesaic::testing {

/// Expert ids of each rank, token by token, topk of them in a row.
using RankIds = std::vector<std::vector<std::int32_t>>;

inline ExpertParallelProblem exchange_problem(int num_experts, int topk, std::int64_t max_tokens,
                                              std::int64_t d, Format format = Format::bf16) {
  ExpertParallelProblem problem;
  problem.format = format;
  problem.num_experts = num_experts;
  problem.topk = topk;
  problem.max_tokens = max_tokens;
  problem.d = d;
  return problem;
}

struct RankData {
  std::int64_t tokens = 0;
  std::vector<std::int32_t> ids, dst_ranks, dst_rows, offs, kept, src_ranks, src_routes;
  std::vector<float> probs, dprobs;
  HostTensor x, y, buffer, gathered;  ///< gathered: [tokens * topk, d]
  HostWorkspace workspace{0};
};

class ExchangeRun {
 public:
  ExchangeRun(const ExpertParallelProblem& problem, const RankIds& ids,
              const Layout& layout = kDense)
      : exchange(ExpertParallel::plan(
            problem, ExpertParallelGroup::simulated(static_cast<int>(ids.size())))) {
    const DType dtype = problem.format == Format::f32 ? DType::f32 : DType::bf16;
    const auto local = static_cast<std::size_t>(exchange.local_experts());
    const auto rows = static_cast<std::size_t>(exchange.max_rows());
    for (const auto& of_rank : ids) {
      RankData data;
      data.tokens = static_cast<std::int64_t>(of_rank.size()) / problem.topk;
      data.ids = of_rank;
      data.dst_ranks.assign(of_rank.size(), -7);
      data.dst_rows = data.dst_ranks;
      data.offs.assign(local, -7);
      data.kept = data.offs;
      data.src_ranks.assign(rows, -7);
      data.src_routes = data.src_ranks;
      data.probs.assign(of_rank.size(), 1.0F);
      data.dprobs.assign(of_rank.size(), -7.0F);
      data.x = HostTensor(dtype, 0, data.tokens, problem.d, layout);
      data.y = HostTensor(dtype, 0, data.tokens, problem.d, layout);
      data.buffer = HostTensor(dtype, 0, exchange.max_rows(), problem.d, layout);
      data.gathered = HostTensor(dtype, 0, data.tokens * problem.topk, problem.d, layout);
      data.workspace = HostWorkspace(exchange.workspace_bytes());
      ranks.push_back(std::move(data));
    }
  }

  /// x: values in (-2, 2), probs in (0, 1).
  void fill(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-2.0F, 2.0F), prob(0.01F, 1.0F);
    for (RankData& data : ranks) {
      for (std::int64_t token = 0; token < data.tokens; ++token) {
        for (std::int64_t j = 0; j < problem().d; ++j) data.x.set(0, token, j, value(random));
      }
      for (float& p : data.probs) p = prob(random);
    }
  }

  [[nodiscard]] const ExpertParallelProblem& problem() const { return exchange.problem(); }
  [[nodiscard]] bool kept(const RankData& data, std::size_t route) const {
    return data.dst_rows[route] >= 0;
  }

  template <class T>
  [[nodiscard]] TensorView per_route(std::vector<T>& values) const {
    const auto topk = static_cast<std::int64_t>(problem().topk);
    return moesaic::view(std::span<T>(values),
                         {static_cast<std::int64_t>(values.size()) / topk, topk});
  }
  template <class T>
  [[nodiscard]] static TensorView dense(std::vector<T>& values) {
    return moesaic::view(std::span<T>(values), {static_cast<std::int64_t>(values.size())});
  }
  [[nodiscard]] TensorView cube(HostTensor& rows, std::int64_t tokens) const {
    TensorView view = rows.view();
    const std::int64_t stride = view.stride[0];
    view.rank = 3;
    view.shape = {tokens, problem().topk, problem().d};
    view.stride = {problem().topk * stride, stride, 1};
    return view;
  }

  [[nodiscard]] std::vector<RouteMapsArgs> maps_args() {
    std::vector<RouteMapsArgs> all;
    for (RankData& data : ranks) {
      RouteMapsArgs args;
      args.expert_ids = per_route(data.ids);
      args.dst_ranks = per_route(data.dst_ranks);
      args.dst_rows = per_route(data.dst_rows);
      args.offs = dense(data.offs);
      args.kept = dense(data.kept);
      args.src_ranks = dense(data.src_ranks);
      args.src_routes = dense(data.src_routes);
      args.workspace = data.workspace.get();
      all.push_back(args);
    }
    return all;
  }
  [[nodiscard]] std::vector<DispatchPutArgs> put_args(bool weighted) {
    std::vector<DispatchPutArgs> all;
    for (RankData& data : ranks) {
      DispatchPutArgs args;
      args.input = data.x.view();
      args.out = data.buffer.view();
      args.dst_ranks = per_route(data.dst_ranks);
      args.dst_rows = per_route(data.dst_rows);
      if (weighted) args.probs = per_route(data.probs);
      args.workspace = data.workspace.get();
      all.push_back(args);
    }
    return all;
  }
  [[nodiscard]] std::vector<CombineGetArgs> get_args(bool weighted) {
    std::vector<CombineGetArgs> all;
    for (RankData& data : ranks) {
      CombineGetArgs args;
      args.expert_out = data.buffer.view();
      args.out = data.y.view();
      args.src_ranks = per_route(data.dst_ranks);
      args.src_rows = per_route(data.dst_rows);
      if (weighted) args.probs = per_route(data.probs);
      args.gathered = cube(data.gathered, data.tokens);
      args.workspace = data.workspace.get();
      all.push_back(args);
    }
    return all;
  }
  [[nodiscard]] std::vector<GatherGetArgs> gather_args() {
    std::vector<GatherGetArgs> all;
    for (RankData& data : ranks) {
      all.push_back({data.buffer.view(), cube(data.gathered, data.tokens),
                     per_route(data.dst_ranks), per_route(data.dst_rows), data.workspace.get()});
    }
    return all;
  }
  /// dout is y.
  [[nodiscard]] std::vector<ProbsGradArgs> probs_grad_args() {
    std::vector<ProbsGradArgs> all;
    for (RankData& data : ranks) {
      all.push_back({cube(data.gathered, data.tokens), data.y.view(), per_route(data.dst_ranks),
                     per_route(data.dst_rows), per_route(data.dprobs)});
    }
    return all;
  }

  void route_maps() { exchange.route_maps(maps_args(), Stream::cpu()); }
  [[nodiscard]] RouteFault fault(std::size_t rank) const {
    return exchange.read_fault(ranks[rank].workspace.get(), Stream::cpu());
  }
  [[nodiscard]] std::int64_t dropped(std::size_t rank) const {
    return exchange.read_dropped_routes(ranks[rank].workspace.get(), Stream::cpu());
  }

  ExpertParallel exchange;
  std::vector<RankData> ranks;
};

}  // namespace moesaic::testing
