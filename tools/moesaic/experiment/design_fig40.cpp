// SPDX-License-Identifier: Apache-2.0
// fig40: one hundred histograms of one total over the range of I_H, each under four permutations in
// three fresh processes, balanced controls around every ten, and twins that leave no tile tail.
#include <algorithm>
#include <cmath>
#include <set>

#include "experiment/design_parts.hpp"
#include "experiment/draw.hpp"
#include "moesaic/error.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr std::int64_t kBins = 10, kBracket = 10, kRowTile = 8;

/// Sizes of the study.
struct Study {
  std::int64_t rows, width, per_bin, permutations;
  std::int64_t twin_tile;  ///< Rows of a kernel's tile: twins are multiples of it.
};
constexpr Study kFull = {65536, 4096, 10, 4, 128};
constexpr Study kReduced = {4096, 128, 2, 2, 32};

struct Histogram {
  std::int64_t bin;
  std::vector<std::int64_t> counts, twin;
  std::string made;  ///< The proposal.
};

/// Shares of `record` as multiples of `tile`, at least one each, `rows` in all.
std::vector<std::int64_t> in_tiles(const routing::Record& record, std::int64_t rows,
                                   std::int64_t tile) {
  std::vector<std::int64_t> counts = routing::rescale(record, rows / tile - kExperts).counts;
  for (std::int64_t& count : counts) count = (count + 1) * tile;
  return counts;
}

/// Symmetric Dirichlet proposals of every concentration, kept when their bin still has room.
std::vector<Histogram> draw_histograms(const Study& study, std::uint64_t seed) {
  static constexpr std::int64_t kMostDraws = 200000, kShareUnits = 1 << 20;
  static constexpr double kLeastLog10 = -2, kLog10Range = 4.4771212547;  // alpha 0.01 to 300
  Draw draw(seed);
  std::vector<Histogram> found;
  std::vector<std::int64_t> in_bin(kBins, 0);
  std::set<std::vector<std::int64_t>> known;
  for (std::int64_t i = 0; i < kMostDraws; ++i) {
    if (static_cast<std::int64_t>(found.size()) == kBins * study.per_bin) break;
    // Four digits: what a library's pow() rounds differently does not show in them.
    const std::string spec =
        format("dirichlet:%.3e", std::pow(10.0, kLeastLog10 + kLog10Range * draw.unit()));
    const std::uint64_t draw_seed = draw.below(1ULL << 32);
    const routing::Record proposal =
        routing::generate(spec, {.rows = kShareUnits, .experts = kExperts, .seed = draw_seed});
    std::vector<std::int64_t> counts = in_tiles(proposal, study.rows, kRowTile);
    const double i_h = planner::measure_load(counts).i_h;
    const std::int64_t bin =
        std::min<std::int64_t>(kBins - 1, static_cast<std::int64_t>(i_h * kBins));
    if (in_bin[static_cast<std::size_t>(bin)] == study.per_bin) continue;
    std::vector<std::int64_t> sorted = counts;
    std::sort(sorted.begin(), sorted.end());
    if (!known.insert(std::move(sorted)).second) continue;
    ++in_bin[static_cast<std::size_t>(bin)];
    found.push_back({bin, std::move(counts), in_tiles(proposal, study.rows, study.twin_tile),
                     spec + " seed " + std::to_string(draw_seed)});
  }
  if (static_cast<std::int64_t>(found.size()) < kBins * study.per_bin) {
    throw Error(ErrorCode::invalid_argument,
                "--seed: expected one from which every range of I_H can be filled, got " +
                    std::to_string(seed));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Histogram& a, const Histogram& b) { return a.bin < b.bin; });
  return found;
}

std::vector<std::vector<std::size_t>> draw_permutations(std::int64_t count, std::uint64_t seed) {
  Draw draw(seed ^ 0x9e3779b97f4a7c15ULL);
  std::vector<std::vector<std::size_t>> permutations;
  while (static_cast<std::int64_t>(permutations.size()) < count) {
    std::vector<std::size_t> order(kExperts);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    draw.shuffle(order);
    if (std::find(permutations.begin(), permutations.end(), order) == permutations.end()) {
      permutations.push_back(std::move(order));
    }
  }
  return permutations;
}

std::vector<std::int64_t> permuted(const std::vector<std::int64_t>& counts,
                                   const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> result(counts.size());
  for (std::size_t i = 0; i < order.size(); ++i) result[i] = counts[order[i]];
  return result;
}

Case base_case(const Study& study, const std::vector<Arm>& arms, std::int64_t process) {
  Case one;
  one.shape = {.d = study.width, .h = study.width};
  one.arms = arms;
  one.process = process;
  one.padded = PaddedBatch::copied;
  return one;
}

Case control(const Study& study, const std::vector<Arm>& arms, std::int64_t process,
             std::int64_t block) {
  Case one = base_case(study, arms, process);
  one.group = "balanced controls";
  one.key = format("control block=%lld run=%lld", static_cast<long long>(block),
                   static_cast<long long>(process));
  one.factors = {{"control", true}, {"block", block}};
  one.record = even_record(study.rows, kExperts);
  return one;
}

/// All cases of one process but the controls, in the order of the design.
std::vector<Case> process_cases(const Study& study, const std::vector<Arm>& arms,
                                std::int64_t process, const std::vector<Histogram>& histograms,
                                const std::vector<std::vector<std::size_t>>& permutations) {
  std::vector<Case> cases;
  for (std::size_t h = 0; h < histograms.size(); ++h) {
    for (std::size_t p = 0; p < permutations.size(); ++p) {
      for (const bool aligned : {false, true}) {
        const Histogram& histogram = histograms[h];
        const auto index = static_cast<std::int64_t>(h), permutation = static_cast<std::int64_t>(p);
        Case one = base_case(study, arms, process);
        one.group =
            format("I_H %.1f to %.1f%s", static_cast<double>(histogram.bin) / kBins,
                   static_cast<double>(histogram.bin + 1) / kBins, aligned ? ", whole tiles" : "");
        one.key = format("histogram=%lld permutation=%lld %s run=%lld",
                         static_cast<long long>(index), static_cast<long long>(permutation),
                         aligned ? "aligned" : "tails", static_cast<long long>(process));
        one.factors = {{"control", false},
                       {"bin", histogram.bin},
                       {"histogram", index},
                       {"permutation", permutation},
                       {"aligned", aligned}};
        one.record = made_record(
            histogram.made, permuted(aligned ? histogram.twin : histogram.counts, permutations[p]),
            format("shares in multiples of %lld rows, at least one each",
                   static_cast<long long>(aligned ? study.twin_tile : kRowTile)));
        cases.push_back(std::move(one));
      }
    }
  }
  return cases;
}

}  // namespace

Design make_fig40(const DesignOptions& options) {
  const std::vector<Arm> allowed = {Arm::grouped, Arm::padded_bmm, Arm::host_loop, Arm::torch};
  Start start = start_design({"fig40",
                              "how much a concentrated histogram costs at the same rows",
                              {Arm::grouped},
                              allowed,
                              3,
                              2},
                             options);
  Design& design = start.design;
  const Study& study = options.protocol == Protocol::full ? kFull : kReduced;
  const std::vector<Histogram> histograms = draw_histograms(study, options.seed);
  const std::vector<std::vector<std::size_t>> permutations =
      draw_permutations(study.permutations, options.seed);
  design.processes = start.trials;
  for (std::int64_t process = 0; process < design.processes; ++process) {
    std::vector<Case> cases = process_cases(study, start.arms, process, histograms, permutations);
    Draw(options.seed + 1 + static_cast<std::uint64_t>(process)).shuffle(cases);
    std::int64_t block = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (i % kBracket == 0) {
        design.cases.push_back(control(study, start.arms, process, block++));
      }
      design.cases.push_back(std::move(cases[i]));
    }
    design.cases.push_back(control(study, start.arms, process, block));
  }
  return std::move(design);
}

}  // namespace moesaic::cli::experiment
