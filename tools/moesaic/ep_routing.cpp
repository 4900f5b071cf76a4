// SPDX-License-Identifier: Apache-2.0
// See ep_routing.hpp.
#include "ep_routing.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "text.hpp"

namespace moesaic::cli {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

EpRouting parse_ep_routing(std::string_view text) {
  EpRouting routing;
  routing.name = text;
  if (text == "uniform") return routing;
  constexpr std::string_view kZipf = "zipf:";
  if (text.starts_with(kZipf)) {
    const std::string_view number = text.substr(kZipf.size());
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), routing.exponent);
    if (error == std::errc{} && end == number.data() + number.size() && routing.exponent >= 0 &&
        routing.exponent <= 10) {
      return routing;
    }
  }
  refuse("--routing", "uniform, or zipf:S with S from 0 to 10", text);
}

std::vector<std::int32_t> ep_expert_ids(const EpRouting& routing, std::int64_t tokens, int topk,
                                        int num_experts, std::uint64_t seed, int rank) {
  std::vector<double> weights(static_cast<std::size_t>(num_experts));
  for (std::size_t e = 0; e < weights.size(); ++e) {
    weights[e] = std::pow(static_cast<double>(e + 1), -routing.exponent);
  }
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(tokens * topk));
  std::vector<double> keys(weights.size());
  std::vector<std::int32_t> order(weights.size());
  std::uint64_t state = mixed(seed * 1'000'003 + static_cast<std::uint64_t>(rank));
  for (std::int64_t token = 0; token < tokens; ++token) {
    // The topk largest of u^(1/w) are a sample by weight without repetition.
    for (std::size_t e = 0; e < keys.size(); ++e) {
      state = mixed(state);
      const double uniform = (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
      keys[e] = std::log(uniform) / weights[e];
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(
        order.begin(), order.begin() + topk, order.end(), [&](std::int32_t a, std::int32_t b) {
          return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
        });
    ids.insert(ids.end(), order.begin(), order.begin() + topk);
  }
  return ids;
}

EpTraffic ep_traffic(const std::vector<std::vector<std::int32_t>>& dst_ranks, int topk) {
  EpTraffic traffic;
  std::vector<std::int64_t> rows_in(dst_ranks.size()), tokens_in = rows_in;
  for (std::size_t source = 0; source < dst_ranks.size(); ++source) {
    const std::vector<std::int32_t>& ranks = dst_ranks[source];
    std::int64_t rows_out = 0, tokens_out = 0;
    for (std::size_t route = 0; route < ranks.size(); ++route) {
      const std::int32_t rank = ranks[route];
      traffic.routes += rank >= 0 ? 1 : 0;
      traffic.dropped_routes += rank >= 0 ? 0 : 1;
      if (rank < 0 || rank == static_cast<std::int32_t>(source)) continue;
      const auto here = ranks.begin() + static_cast<std::ptrdiff_t>(route);
      const auto token = here - static_cast<std::ptrdiff_t>(route) % topk;
      const bool first = std::find(token, here, rank) == here;
      rows_out += 1;
      rows_in[static_cast<std::size_t>(rank)] += 1;
      tokens_out += first ? 1 : 0;
      tokens_in[static_cast<std::size_t>(rank)] += first ? 1 : 0;
    }
    traffic.remote_out_rows = std::max(traffic.remote_out_rows, rows_out);
    traffic.remote_out_tokens = std::max(traffic.remote_out_tokens, tokens_out);
  }
  traffic.remote_in_rows = *std::max_element(rows_in.begin(), rows_in.end());
  traffic.remote_in_tokens = *std::max_element(tokens_in.begin(), tokens_in.end());
  return traffic;
}

float ep_element(int rank, std::int64_t token, std::int64_t j) {
  const auto x = (static_cast<std::uint64_t>(rank) << 48) ^
                 (static_cast<std::uint64_t>(token) << 20) ^ static_cast<std::uint64_t>(j);
  return static_cast<float>(1 + mixed(x) % 16);
}

}  // namespace moesaic::cli
