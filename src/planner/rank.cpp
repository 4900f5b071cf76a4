// SPDX-License-Identifier: Apache-2.0
// What each rank of an expert-parallel group gets: a layer waits for its slowest rank, so the
// maximum stands beside the sum.
#include <algorithm>
#include <string>

#include "moesaic/planner.hpp"
#include "planner/counts.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

constexpr std::int64_t kLargestGroupShown = 1024;

std::string divisors_text(std::int64_t number) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= std::min(number, kLargestGroupShown); ++divisor) {
    if (number % divisor != 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(divisor);
  }
  return text;
}

std::int64_t experts_per_rank(std::int64_t experts, std::int64_t ep) {
  require_positive(experts, "experts");
  require_positive(ep, "--ep");
  if (experts % ep != 0) {
    refuse("--ep: expected a number of ranks that divides " + std::to_string(experts) +
           " experts (" + divisors_text(experts) + "), got " + std::to_string(ep));
  }
  return experts / ep;
}

void take_tails(const RankLoad& rank, std::vector<RankTileTail>& tails) {
  for (std::size_t i = 0; i < tails.size(); ++i) {
    const std::int64_t padded = rank.tiles[i].padded_rows;
    if (rank.rank == 0 || padded > tails[i].max_padded_rows) {
      tails[i].max_padded_rows = padded;
      tails[i].max_rank = rank.rank;
    }
    tails[i].sum_padded_rows =
        checked_add(tails[i].sum_padded_rows, padded, "padded rows of all ranks");
  }
}

}  // namespace

ExpertRange rank_experts(std::int64_t experts, std::int64_t ep, std::int64_t rank) {
  const std::int64_t share = experts_per_rank(experts, ep);
  if (rank < 0 || rank >= ep) {
    refuse("--rank: expected 0 to " + std::to_string(ep - 1) + ", got " + std::to_string(rank));
  }
  return {.begin = rank * share, .end = (rank + 1) * share};
}

RankReport rank_report(Counts counts, std::int64_t ep, std::span<const std::int64_t> tiles) {
  RankReport report;
  report.sum_rows = checked_rows(counts);
  const std::int64_t share = experts_per_rank(static_cast<std::int64_t>(counts.size()), ep);
  for (const std::int64_t tile : tiles) report.tails.push_back({.tile = tile});
  for (std::int64_t index = 0; index < ep; ++index) {
    const Counts local =
        counts.subspan(static_cast<std::size_t>(index * share), static_cast<std::size_t>(share));
    RankLoad rank;
    rank.rank = index;
    rank.load = measure_load(local);
    for (const std::int64_t tile : tiles) rank.tiles.push_back(tile_ledger(local, tile));
    take_tails(rank, report.tails);
    if (rank.load.useful_rows > report.max_rows) {
      report.max_rows = rank.load.useful_rows;
      report.max_rank = index;
    }
    if (rank.load.useful_rows == 0 && report.sum_rows > 0) {
      report.warnings.push_back("rank " + std::to_string(index) + " of " + std::to_string(ep) +
                                " has no rows while others have " + grouped(report.sum_rows) +
                                ": a benchmark on these counts leaves it idle");
    }
    report.ranks.push_back(std::move(rank));
  }
  if (report.sum_rows > 0) {
    report.mean_rows = static_cast<double>(report.sum_rows) / static_cast<double>(ep);
    report.max_over_mean = static_cast<double>(report.max_rows) / report.mean_rows;
    report.balancedness = report.mean_rows / static_cast<double>(report.max_rows);
  }
  return report;
}

double mean_balancedness(std::span<const std::int64_t> layer_rank_rows, std::int64_t ranks) {
  require_positive(ranks, "ranks");
  const auto width = static_cast<std::size_t>(ranks);
  if (layer_rank_rows.size() % width != 0) {
    refuse("layer_rank_rows: expected a multiple of " + std::to_string(ranks) + " numbers, got " +
           std::to_string(layer_rank_rows.size()));
  }
  double sum = 0;
  std::int64_t layers = 0;
  for (std::size_t first = 0; first < layer_rank_rows.size(); first += width) {
    // Over ranks within a layer: over layers it would be another number under the same name.
    const LoadMetrics load = measure_load(layer_rank_rows.subspan(first, width));
    if (load.useful_rows == 0) continue;
    sum += load.balancedness;
    ++layers;
  }
  return layers == 0 ? 0.0 : sum / static_cast<double>(layers);
}

}  // namespace moesaic::planner
