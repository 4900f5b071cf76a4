// SPDX-License-Identifier: Apache-2.0
// The exchange of a simulated group, by the words of the contract: routes in their order, slots of
// a token ascending.

#include "backends/reference/row_exchange.hpp"

#include <algorithm>
#include <vector>

#include "backends/host_rows.hpp"
#include "backends/reference/dispatch_rows.hpp"
#include "backends/reference/map_reader.hpp"
#include "backends/reference/route_maps.hpp"
#include "core/exact.hpp"
#include "core/parallel.hpp"
#include "math/row_combine.hpp"

namespace moesaic::backends::reference {
namespace {

/// Where GET finds the buffer of each rank.
using Sources = std::vector<ConstTensorView>;

template <class T>
const T* source_row(const Sources& sources, const MapReader& maps, std::int64_t route) {
  return row<T>(sources[static_cast<std::size_t>(maps.ranks[route])], maps.rows[route]);
}

template <class T>
void gather_token(const Sources& sources, const MapReader& maps, const TensorView& gathered,
                  std::int64_t token) {
  const std::int64_t topk = gathered.shape[1];
  const std::int64_t d = gathered.shape[2];
  for (std::int64_t slot = 0; slot < topk; ++slot) {
    const std::int64_t route = token * topk + slot;
    T* to =
        reinterpret_cast<T*>(at(gathered, token * gathered.stride[0] + slot * gathered.stride[1]));
    if (maps.moves(route)) {
      const T* from = source_row<T>(sources, maps, route);
      std::copy(from, from + d, to);
    } else {
      std::fill(to, to + d, T{});
    }
  }
}

template <class T>
void combine_token(const Sources& sources, const MapReader& maps, const CombineGetArgs& args,
                   std::int64_t token, std::vector<float>& sums) {
  const std::int64_t topk = args.src_ranks.shape[1];
  const float* probs = probs_of(args.probs);
  sums.assign(static_cast<std::size_t>(args.out.shape[1]), 0.0F);
  for (std::int64_t slot = 0; slot < topk; ++slot) {
    const std::int64_t route = token * topk + slot;
    if (!maps.moves(route)) {
      continue;
    }
    const T* from = source_row<T>(sources, maps, route);
    for (std::size_t j = 0; j < sums.size(); ++j) {
      sums[j] = probs == nullptr ? math::add_plain(sums[j], single(from[j]))
                                 : math::add_weighted(sums[j], probs[route], single(from[j]));
    }
  }
  T* out = row<T>(args.out, token);
  for (std::size_t j = 0; j < sums.size(); ++j) {
    out[j] = rounded<T>(sums[j]);
  }
}

template <class T>
void probs_grad_token(const ProbsGradArgs& args, const MapReader& maps, std::int64_t token) {
  const std::int64_t topk = args.gathered.shape[1];
  auto* dprobs = static_cast<float*>(args.dprobs.data) + token * topk;
  for (std::int64_t slot = 0; slot < topk; ++slot) {
    const T* rows = reinterpret_cast<const T*>(
        at(args.gathered, token * args.gathered.stride[0] + slot * args.gathered.stride[1]));
    // Not through the zeros of `gathered`: an infinite gradient would make NaN of them.
    const double sum = maps.moves(token * topk + slot)
                           ? core::dot(rows, row<T>(args.dout, token), args.dout.shape[1])
                           : 0.0;
    core::store(sum, dprobs[slot]);
  }
}

class SimulatedExchange final : public detail::ExpertParallelImpl {
 public:
  using ExpertParallelImpl::ExpertParallelImpl;

  [[nodiscard]] std::string_view name() const noexcept override {
    return simulated_exchange().name();
  }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override {
    return core::kWorkspaceHeaderBytes;
  }

  void route_maps(std::span<const RouteMapsArgs> ranks, const Stream& /*stream*/) const override {
    make_route_maps(*this, ranks);
    barrier(true);
  }

  void dispatch_put(std::span<const DispatchPutArgs> ranks, const Stream& /*stream*/,
                    const PutOptions& options) const override {
    barrier(options.pre_barrier);
    for (const DispatchPutArgs& args : ranks) {
      const MapReader maps(*this, args.dst_ranks, args.dst_rows);
      record_route_fault(args.workspace, maps.faults(math::Transfer::put));
    }
    dispatch_rows(*this, ranks);
    barrier(options.post_barrier);
  }

  void combine_get(std::span<const CombineGetArgs> ranks, const Stream& /*stream*/,
                   const GetOptions& options, detail::CombineForm /*form*/) const override {
    barrier(options.pre_barrier);
    const Sources sources = sources_of(ranks);
    for (const CombineGetArgs& args : ranks) {
      const MapReader maps = get_maps(args);
      with_row_type(problem().format, [&]<class T>(T /*type*/) {
        core::parallel_for_with<std::vector<float>>(
            args.out.shape[0], 0, [&](std::vector<float>& sums, std::int64_t token) {
              combine_token<T>(sources, maps, args, token, sums);
              if (args.gathered.rank != 0) {
                gather_token<T>(sources, maps, args.gathered, token);
              }
            });
      });
    }
    barrier(options.post_barrier);
  }

  void gather_get(std::span<const GatherGetArgs> ranks, const Stream& /*stream*/,
                  const GetOptions& options) const override {
    barrier(options.pre_barrier);
    const Sources sources = sources_of(ranks);
    for (const GatherGetArgs& args : ranks) {
      const MapReader maps = get_maps(args);
      with_row_type(problem().format, [&]<class T>(T /*type*/) {
        core::parallel_for(args.gathered.shape[0], 0, [&](std::int64_t token) {
          gather_token<T>(sources, maps, args.gathered, token);
        });
      });
    }
    barrier(options.post_barrier);
  }

  void probs_grad(std::span<const ProbsGradArgs> ranks, const Stream& /*stream*/) const override {
    for (const ProbsGradArgs& args : ranks) {
      const MapReader maps(*this, args.src_ranks, args.src_rows);
      with_row_type(problem().format, [&]<class T>(T /*type*/) {
        core::parallel_for(args.dout.shape[0], 0,
                           [&](std::int64_t token) { probs_grad_token<T>(args, maps, token); });
      });
    }
  }

 private:
  void barrier(bool wanted) const {
    if (wanted) {
      group().barrier(Stream::cpu());
    }
  }
  template <class Args>
  static Sources sources_of(std::span<const Args> ranks) {
    Sources sources;
    for (const Args& args : ranks) {
      sources.push_back(args.expert_out);
    }
    return sources;
  }
  template <class Args>
  MapReader get_maps(const Args& args) const {
    const MapReader maps(*this, args.src_ranks, args.src_rows);
    record_route_fault(args.workspace, maps.faults(math::Transfer::get));
    return maps;
  }
};

class SimulatedImplementation final : public ExpertParallelImplementation {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "cpu/reference/rowwise"; }
  [[nodiscard]] Support supports(const ExpertParallelProblem& /*problem*/,
                                 const ExpertParallelGroup& group) const override {
    if (dynamic_cast<const detail::SimulatedGroup*>(&group.impl()) == nullptr) {
      return {false, "it serves simulated groups, whose ranks are all in one process, not " +
                         std::string(group.transport()) + " ones"};
    }
    return {true, {}};
  }
  [[nodiscard]] std::shared_ptr<const detail::ExpertParallelImpl> make(
      const ExpertParallelProblem& problem, const ExpertParallelGroup& group) const override {
    return std::make_shared<SimulatedExchange>(problem, group);
  }
};

}  // namespace

const ExpertParallelImplementation& simulated_exchange() {
  static const SimulatedImplementation instance;
  return instance;
}

}  // namespace moesaic::backends::reference
