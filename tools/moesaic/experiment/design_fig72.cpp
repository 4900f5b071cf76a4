// SPDX-License-Identifier: Apache-2.0
// fig72: two histograms of the same largest load; and of the same I_H, and of the same number of
// effective experts, which the largest load does not fix.
#include <array>
#include <cmath>
#include <functional>

#include "experiment/design_parts.hpp"
#include "experiment/draw.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr std::int64_t kRowTile = 8, kHot = 3, kHotStride = 5;
constexpr std::array<std::int64_t, 5> kBases = {0, 3, 6, 9, 12};
/// Three hot experts have 95 % of the rows; a single spike as much as one of them, 31.67 %.
constexpr double kHotShare = 0.95;

std::vector<std::int64_t> in_rows(std::vector<std::int64_t> tiles) {
  for (std::int64_t& count : tiles) count *= kRowTile;
  return tiles;
}

/// `hot` experts with `each` tiles, `base` and every fifth after it; the others share the rest.
std::vector<std::int64_t> hot_counts(std::int64_t tiles, std::int64_t base, std::int64_t hot,
                                     std::int64_t each) {
  std::vector<std::int64_t> counts(kExperts, -1);
  for (std::int64_t i = 0; i < hot; ++i) {
    counts[static_cast<std::size_t>((base + i * kHotStride) % kExperts)] = each;
  }
  const std::vector<std::int64_t> rest = evenly(tiles - hot * each, kExperts - hot);
  std::size_t next = 0;
  for (std::int64_t& count : counts) {
    if (count < 0) count = rest[next++];
  }
  return in_rows(std::move(counts));
}

using Figure = double planner::LoadMetrics::*;

/// The single spike whose figure is nearest to `target`; the figure is monotone in its height.
std::vector<std::int64_t> spike_with(std::int64_t tiles, std::int64_t base, Figure figure,
                                     double target) {
  const auto value = [&](std::int64_t each) {
    return planner::measure_load(hot_counts(tiles, base, 1, each)).*figure;
  };
  const std::int64_t least = tiles / kExperts + 1, most = tiles - (kExperts - 1);
  const bool rising = value(most) > value(least);
  std::int64_t low = least, high = most;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    ((value(middle) < target) == rising ? low : high) = middle;
  }
  const bool lower = std::abs(value(low) - target) <= std::abs(value(high) - target);
  return hot_counts(tiles, base, 1, lower ? low : high);
}

struct Load {
  std::string name;
  std::vector<std::int64_t> counts;
};

struct Pair {
  const char* name;
  Figure figure;
};
constexpr std::array kPairs = {Pair{"i_max", &planner::LoadMetrics::i_max},
                               Pair{"i_h", &planner::LoadMetrics::i_h},
                               Pair{"effective_experts", &planner::LoadMetrics::effective_experts}};

std::vector<Load> loads_of(std::int64_t rows, std::int64_t base, const Pair& pair) {
  const std::int64_t tiles = rows / kRowTile;
  const auto each =
      static_cast<std::int64_t>(std::floor(kHotShare / kHot * static_cast<double>(tiles) + 0.5));
  std::vector<std::int64_t> three = hot_counts(tiles, base, kHot, each);
  const double target = planner::measure_load(three).*pair.figure;
  std::vector<std::int64_t> spike = pair.figure == &planner::LoadMetrics::i_max
                                        ? hot_counts(tiles, base, 1, each)
                                        : spike_with(tiles, base, pair.figure, target);
  return {{"balanced", in_rows(evenly(tiles, kExperts))},
          {"single_spike", std::move(spike)},
          {"three_hot", std::move(three)}};
}

}  // namespace

Design make_fig72(const DesignOptions& options) {
  const std::vector<Arm> allowed = {Arm::grouped, Arm::padded_bmm, Arm::host_loop, Arm::torch};
  Start start = start_design({"fig72",
                              "two histograms that agree in one figure of concentration",
                              {Arm::grouped},
                              allowed,
                              0,
                              0},
                             options);
  Design& design = start.design;
  const bool full = options.protocol == Protocol::full;
  const std::int64_t width = full ? 4096 : 128;
  const std::vector<std::int64_t> sizes =
      full ? std::vector<std::int64_t>{16384, 32768, 65536, 131072}
           : std::vector<std::int64_t>{1024, 2048};
  design.processes = static_cast<std::int64_t>(full ? kBases.size() : 2);
  for (std::int64_t process = 0; process < design.processes; ++process) {
    const std::int64_t base = kBases[static_cast<std::size_t>(process)];
    Draw draw(options.seed + static_cast<std::uint64_t>(process));
    for (const std::int64_t rows : sizes) {
      for (const Pair& pair : kPairs) {
        std::vector<Load> loads = loads_of(rows, base, pair);
        draw.shuffle(loads);
        for (Load& load : loads) {
          Case one;
          one.group = format("rows=%lld, same %s", static_cast<long long>(rows), pair.name);
          one.key = format("rows=%lld base=%lld pair=%s %s", static_cast<long long>(rows),
                           static_cast<long long>(base), pair.name, load.name.c_str());
          one.factors = {{"rows", rows},
                         {"load", load.name},
                         {"base_expert", base},
                         {"pair", std::string(pair.name)}};
          one.shape = {.d = width, .h = width};
          one.record = made_record(load.name, std::move(load.counts), "multiples of 8 rows");
          one.arms = start.arms;
          one.process = process;
          one.padded = PaddedBatch::copied;
          design.cases.push_back(std::move(one));
        }
      }
    }
  }
  return std::move(design);
}

}  // namespace moesaic::cli::experiment
