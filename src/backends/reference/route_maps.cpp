// SPDX-License-Identifier: Apache-2.0
// See route_maps.hpp.

#include "backends/reference/route_maps.hpp"

#include <algorithm>
#include <vector>

#include "backends/host_rows.hpp"
#include "math/route_fault.hpp"
#include "math/row_route.hpp"

namespace moesaic::backends::reference {
namespace {

const std::int32_t* ints(const ConstTensorView& view) {
  return static_cast<const std::int32_t*>(view.data);
}
std::int32_t* ints(const TensorView& view) { return static_cast<std::int32_t*>(view.data); }

std::int64_t num_routes(const RouteMapsArgs& args) {
  return args.expert_ids.shape[0] * args.expert_ids.shape[1];
}

std::uint64_t id_faults(const RouteMapsArgs& args, std::int32_t num_experts) {
  std::uint64_t word = 0;
  for (std::int64_t route = 0; route < num_routes(args); ++route) {
    word = math::combine_route_faults(
        word, math::encode_route_fault(math::expert_id_fault(
                  ints(args.expert_ids)[route], num_experts, static_cast<std::int32_t>(route))));
  }
  return word;
}

/// Counts of all ranks, as they would be exchanged, and where each cell begins.
struct Counts {
  std::vector<std::int32_t> counts;
  std::vector<std::int64_t> first_rows;

  Counts(std::span<const RouteMapsArgs> ranks, const math::ExpertPlacement& placement)
      : counts(ranks.size() * static_cast<std::size_t>(placement.num_experts())),
        first_rows(counts.size()) {
    const std::int32_t experts = placement.num_experts();
    for (std::size_t source = 0; source < ranks.size(); ++source) {
      math::count_routes(ints(ranks[source].expert_ids), {0, num_routes(ranks[source])}, experts,
                         counts.data() + static_cast<std::int64_t>(source) * experts);
    }
    for (std::int32_t rank = 0; rank < placement.num_ranks; ++rank) {
      math::scan_cells(counts, placement, rank, first_rows);
    }
  }
};

void write_ends(const RouteMapsArgs& args, const Counts& all,
                const math::ExpertPlacement& placement, std::int32_t rank, std::int64_t capacity) {
  for (std::int32_t local = 0; local < placement.local_experts; ++local) {
    const std::int32_t expert = placement.first_expert(rank) + local;
    const std::int32_t end =
        math::kept_end(all.counts, all.first_rows, placement, expert, capacity);
    ints(args.offs)[local] = end;
    if (args.kept.rank != 0) {
      ints(args.kept)[local] = math::kept_rows(all.first_rows, placement, expert, end, capacity);
    }
  }
}

/// Fills src_ranks and src_routes of all ranks from the maps of all ranks.
void invert(std::span<const RouteMapsArgs> ranks, std::int64_t max_rows) {
  for (const RouteMapsArgs& args : ranks) {
    if (args.src_ranks.rank != 0) {
      std::fill_n(ints(args.src_ranks), max_rows, -1);
      std::fill_n(ints(args.src_routes), max_rows, -1);
    }
  }
  for (std::size_t source = 0; source < ranks.size(); ++source) {
    for (std::int64_t route = 0; route < num_routes(ranks[source]); ++route) {
      const std::int32_t rank = ints(ranks[source].dst_ranks)[route];
      if (rank < 0) {
        continue;
      }
      const RouteMapsArgs& peer = ranks[static_cast<std::size_t>(rank)];
      if (peer.src_ranks.rank != 0) {
        const std::int32_t row = ints(ranks[source].dst_rows)[route];
        ints(peer.src_ranks)[row] = static_cast<std::int32_t>(source);
        ints(peer.src_routes)[row] = static_cast<std::int32_t>(route);
      }
    }
  }
}

}  // namespace

void record_route_fault(const Workspace& workspace, std::uint64_t fault_word) {
  change_header(workspace, [&](core::WorkspaceHeader& header) {
    header.route_fault_word = math::combine_route_faults(header.route_fault_word, fault_word);
  });
}

void make_route_maps(const detail::ExpertParallelImpl& exchange,
                     std::span<const RouteMapsArgs> ranks) {
  const math::ExpertPlacement placement{exchange.group().num_ranks(), exchange.local_experts()};
  const Counts all(ranks, placement);
  std::vector<std::int64_t> next_rows = all.first_rows;
  for (std::size_t source = 0; source < ranks.size(); ++source) {
    const RouteMapsArgs& args = ranks[source];
    const std::int64_t dropped = math::place_routes(
        ints(args.expert_ids), num_routes(args), placement, exchange.max_rows(),
        next_rows.data() + static_cast<std::int64_t>(source) * placement.num_experts(),
        ints(args.dst_ranks), ints(args.dst_rows));
    write_ends(args, all, placement, static_cast<std::int32_t>(source), exchange.max_rows());
    record_route_fault(args.workspace, id_faults(args, placement.num_experts()));
    change_header(args.workspace,
                  [&](core::WorkspaceHeader& header) { header.dropped_routes = dropped; });
  }
  invert(ranks, exchange.max_rows());
}

}  // namespace moesaic::backends::reference
