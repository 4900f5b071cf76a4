// SPDX-License-Identifier: Apache-2.0
// See dispatch_rows.hpp.

#include "backends/reference/dispatch_rows.hpp"

#include <algorithm>
#include <vector>

#include "backends/host_rows.hpp"
#include "backends/reference/map_reader.hpp"
#include "math/fan_out.hpp"
#include "math/row_combine.hpp"

namespace moesaic::backends::reference {
namespace {

/// The row as it is, or times its probability, rounded once.
template <class T>
void write_row(T* to, const T* from, std::int64_t d, const float* prob) {
  if (prob == nullptr) {
    std::copy(from, from + d, to);
    return;
  }
  const float weight = *prob;
  for (std::int64_t j = 0; j < d; ++j) {
    to[j] = rounded<T>(math::weighted(weight, single(from[j])));
  }
}

const float* prob_of(const DispatchPutArgs& args, std::int64_t route) {
  const float* probs = probs_of(args.probs);
  return probs == nullptr ? nullptr : probs + route;
}

template <class T>
void put_rank(const DispatchPutArgs& args, std::span<const DispatchPutArgs> peers,
              const MapReader& maps) {
  const std::int64_t topk = args.dst_ranks.shape[1], d = args.input.shape[1];
  for (std::int64_t route = 0; route < maps.routes; ++route) {
    if (maps.moves(route)) {
      const TensorView& out = peers[static_cast<std::size_t>(maps.ranks[route])].out;
      write_row<T>(row<T>(out, maps.rows[route]), row<T>(args.input, route / topk), d,
                   prob_of(args, route));
    }
  }
}

/// What a source writes: its own rows as they are to be, and to every other rank each token once,
/// unweighted.
template <class T>
void put_tokens(const DispatchPutArgs& args, std::span<const DispatchPutArgs> peers,
                const MapReader& maps, std::int32_t own) {
  const std::int64_t topk = args.dst_ranks.shape[1], d = args.input.shape[1];
  for (std::int64_t route = 0; route < maps.routes; ++route) {
    if (!maps.moves(route)) {
      continue;
    }
    const std::int32_t rank = maps.ranks[route];
    const std::int64_t token = route / topk;
    const auto slot = static_cast<std::int32_t>(route - token * topk);
    if (rank == own ||
        !math::reaches_rank(maps.ranks, maps.rows, token * topk, slot, rank, maps.max_rows)) {
      write_row<T>(row<T>(peers[static_cast<std::size_t>(rank)].out, maps.rows[route]),
                   row<T>(args.input, token), d, rank == own ? prob_of(args, route) : nullptr);
    }
  }
}

/// What rank `own` makes of the tokens of one source.
template <class T>
void copy_tokens(const DispatchPutArgs& source, const MapReader& maps, const TensorView& out,
                 std::int32_t own) {
  const std::int64_t topk = source.dst_ranks.shape[1];
  std::vector<T> carried(static_cast<std::size_t>(out.shape[1]));
  for (std::int64_t begin = 0; begin < maps.routes; begin += topk) {
    bool first = true;
    for (std::int64_t route = begin; route < begin + topk; ++route) {
      const std::int32_t told =
          math::told_row(maps.ranks[route], maps.rows[route], own, maps.max_rows);
      if (told < 0) {
        continue;
      }
      T* to = row<T>(out, told);
      if (first) {
        std::copy(to, to + out.shape[1], carried.begin());
      }
      // Unweighted, the first one is what it is to be.
      if (!first || source.probs.rank != 0) {
        write_row<T>(to, carried.data(), out.shape[1], prob_of(source, route));
      }
      first = false;
    }
  }
}

}  // namespace

void dispatch_rows(const detail::ExpertParallelImpl& exchange,
                   std::span<const DispatchPutArgs> ranks) {
  std::vector<MapReader> maps;
  for (const DispatchPutArgs& args : ranks) {
    maps.emplace_back(exchange, args.dst_ranks, args.dst_rows);
  }
  with_row_type(exchange.problem().format, [&]<class T>(T /*type*/) {
    if (exchange.dispatch_form() == DispatchForm::direct) {
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        put_rank<T>(ranks[r], ranks, maps[r]);
      }
      return;
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      put_tokens<T>(ranks[r], ranks, maps[r], static_cast<std::int32_t>(r));
    }
    exchange.group().barrier(Stream::cpu());
    for (std::size_t own = 0; own < ranks.size(); ++own) {
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (r != own) {
          copy_tokens<T>(ranks[r], maps[r], ranks[own].out, static_cast<std::int32_t>(own));
        }
      }
    }
  });
}

}  // namespace moesaic::backends::reference
