// SPDX-License-Identifier: Apache-2.0
// Top-k ids for the benchmark of expert parallelism: distinct experts for each token, by weight.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesaic::cli {

/// How often experts are chosen: all alike, or expert e with weight (e + 1)^-exponent.
struct EpRouting {
  std::string name = "uniform";  ///< As typed.
  double exponent = 0;
};
/// "uniform" or "zipf:S". @throws Error{invalid_argument} naming --routing.
EpRouting parse_ep_routing(std::string_view text);

/// Ids [tokens, topk] of one rank. The same numbers on every machine for one seed and rank.
std::vector<std::int32_t> ep_expert_ids(const EpRouting& routing, std::int64_t tokens, int topk,
                                        int num_experts, std::uint64_t seed, int rank);

/// How many routes and rows a case has.
struct EpTraffic {
  std::int64_t routes = 0, dropped_routes = 0, max_rows_used = 0;
  /// Of the busiest rank each: rows of another rank, and how many of them travel by fan-out.
  std::int64_t remote_out_rows = 0, remote_in_rows = 0;
  std::int64_t remote_out_tokens = 0, remote_in_tokens = 0;
};

/// That of destination ranks [tokens, topk] of every rank, -1 for a route that was dropped;
/// max_rows_used is left 0.
EpTraffic ep_traffic(const std::vector<std::vector<std::int32_t>>& dst_ranks, int topk);

/// Element j of a token's row: 1 to 16, of which BF16 sums of a few are exact.
float ep_element(int rank, std::int64_t token, std::int64_t j);

}  // namespace moesaic::cli
