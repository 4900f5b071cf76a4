// SPDX-License-Identifier: Apache-2.0
// A plan in words. The question is always the same: is a trial of exact-row execution in place of
// the padded batch worth somebody's time? Every sentence carries its numbers; nothing here computes
// new ones.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "moesaic/planner.hpp"
#include "planner/counts.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

// A saving below this is within what clocks and neighbours change between two runs.
constexpr double kWorthwhileSaving = 0.05;
constexpr double kSmallPadding = 0.10;
constexpr double kLargePadding = 0.25;
constexpr double kRankTail = 1.10;  // the slowest rank's rows over the mean
constexpr std::size_t kWorstShown = 3;

/// Exact-row execution against the padded batch, in estimated seconds.
struct Comparison {
  double exact = 0, padded = 0;
  [[nodiscard]] double saving() const { return padded > 0 ? 1 - exact / padded : 0.0; }
  [[nodiscard]] bool worthwhile() const { return saving() >= kWorthwhileSaving; }
};

Comparison compare(const LayerPlan& plan) {
  // A rank without rows launches nothing worth counting beside the rank that its layer waits for.
  if (!plan.suggested) return {};
  return {.exact = plan.costs.at(*plan.suggested).kernel_s(), .padded = plan.padded_batch_s};
}

/// "46.9 us against 60.1 us, 22.0 % less".
std::string comparison_text(const Comparison& comparison) {
  const double saving = comparison.saving();
  const std::string share = percent(saving < 0 ? -saving : saving);
  return duration(comparison.exact) + " against " + duration(comparison.padded) + ", " +
         (share == percent(0) ? "the same" : share + (saving < 0 ? " more" : " less"));
}

Finding trial_finding(const LayerPlan& plan, const std::string& label) {
  const Comparison comparison = compare(plan);
  const CapacityLedger& capacity = plan.capacity;
  std::string padded = "a batch padded to C = " + grouped(capacity.capacity) + " (" +
                       to_string(capacity.rule) + ", " + rows_text(capacity.executed_rows);
  if (capacity.overflow_rows > 0) {
    padded += " and " + grouped(capacity.overflow_rows) + " of overflow";
  }
  return {comparison.worthwhile() ? "saves_padding" : "little_to_gain",
          label + ": exact rows (grouped, tile " + std::to_string(plan.reference_tile().tile) +
              ") over " + padded + "): estimated " + comparison_text(comparison) + "."};
}

/// The padding of every tile in place of a recommendation: which tile a kernel would take depends
/// on the widths.
Finding tiles_finding(std::span<const TileLedger> tiles, std::int64_t routed,
                      const std::string& label) {
  std::string sentence =
      label + ": no widths (--shape), so no recommendation; tail padding of " + rows_text(routed);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    sentence += (i == 0 ? ": " : ", ") + percent(tiles[i].padding_fraction) + " at tile " +
                std::to_string(tiles[i].tile);
  }
  return {"no_shape", sentence + "."};
}

Finding padding_finding(const LayerPlan& plan, const std::string& label) {
  const TileLedger& tile = plan.reference_tile();
  const std::int64_t routed = plan.load.useful_rows;
  const char* code = tile.padding_fraction < kSmallPadding   ? "padding_small"
                     : tile.padding_fraction < kLargePadding ? "padding_moderate"
                                                             : "padding_large";
  return {code, label + ": tile " + std::to_string(tile.tile) + " executes " +
                    rows_text(tile.padded_rows) + " for " + grouped(routed) +
                    (routed == 1 ? " routed one, " : " routed ones, ") +
                    percent(tile.padding_fraction) + " tail padding."};
}

Finding skew_finding(const LayerPlan& plan, const std::string& label) {
  const LoadMetrics& load = plan.load;
  const bool large = load.effective_experts < 0.5 * static_cast<double>(load.experts);
  return {large ? "skew_large" : "skew_small",
          label + ": " + grouped(load.active_experts) + " of " + grouped(load.experts) +
              (load.experts == 1          ? " expert is active, "
               : load.active_experts == 1 ? " experts is active, "
                                          : " experts are active, ") +
              fixed(load.effective_experts, 2) + " effective; the hottest has " +
              rows_text(load.max_rows) + ", " + fixed(load.i_max, 2) + " times the mean."};
}

Finding bound_finding(const LayerPlan& plan, const std::string& label) {
  const CostTerms& cost = plan.costs.at(*plan.suggested);
  const double traffic_s = std::max(cost.weight_s, cost.operands_s);
  const bool launch = cost.launch_s > cost.mma_s && cost.launch_s > traffic_s;
  const bool traffic = !launch && traffic_s > cost.mma_s;
  // All operands once take longer than the weights' rereads: it is mostly what is more of them.
  const double rows_s = cost.operands_s - cost.weight_once_s;
  const bool weight = traffic && (cost.weight_s >= cost.operands_s || cost.weight_once_s >= rows_s);
  std::string sentence = label + ": matrix work " + duration(cost.mma_s) + ", weights " +
                         duration(cost.weight_s) + ", operands once " + duration(cost.operands_s) +
                         ", launch " + duration(cost.launch_s);
  if (launch) {
    return {"launch_bound",
            sentence + ": bound by the launch, so neither padding nor the tile decides."};
  }
  sentence += weight    ? ": bound by weight traffic, so padded rows cost little time"
              : traffic ? ": bound by reading and writing the rows, so a padded batch, which moves "
                          "its empty rows too, costs time"
                        : ": bound by matrix work, so padded rows cost time";
  if (plan.roofline->balance_rows == 0) {
    sentence += "; at these widths no number of rows repays reading the weights";
  } else if (plan.roofline->experts_below_balance > 0) {
    sentence += "; " + grouped(plan.roofline->experts_below_balance) + " of " +
                grouped(plan.load.active_experts) + " active experts have fewer than the " +
                fixed(plan.roofline->balance_rows, 0) + " rows that repay reading their weights";
  }
  return {weight    ? "weight_bound"
          : traffic ? "row_traffic_bound"
                    : "compute_bound",
          sentence + "."};
}

void add_rank_findings(const RankReport& ranks, const std::string& label, Verdict& verdict) {
  if (ranks.sum_rows == 0) return;
  const bool tail = ranks.max_over_mean >= kRankTail;
  verdict.findings.push_back(
      {tail ? "rank_tail" : "rank_even",
       label + ": rank " + std::to_string(ranks.max_rank) + " of " +
           std::to_string(ranks.ranks.size()) + " has " + grouped(ranks.max_rows) + " of " +
           rows_text(ranks.sum_rows) + ", " + fixed(ranks.max_over_mean, 2) + " times the mean" +
           (tail ? ": the layer waits for it, and placement helps more than a tile." : ".")});
  for (const std::string& warning : ranks.warnings) {
    std::string sentence = label;
    sentence.append(": ").append(warning).append(".");
    verdict.findings.push_back({"rank_idle", std::move(sentence)});
  }
}

Finding summed_finding(const std::string& label) {
  return {"summed_average", label +
                                ": the counts are summed over steps, so they are an average: a "
                                "single step is smaller and more uneven, and its padding cannot "
                                "be read from them; record per step."};
}

Evidence evidence_at(std::span<const Evidence> evidence, std::size_t index) {
  if (!evidence.empty()) return evidence[index];
  return {.label = "layer " + std::to_string(index)};
}

/// The layer records of a set of plans; ranks of one layer are one record.
struct Totals {
  std::int64_t routed = 0, costed = 0, summed = 0, judged = 0, recommended = 0;
  std::int64_t rows = 0;
  bool ranks = false;
  Comparison time;  ///< Of the judged ones.
};

std::string records_word(std::int64_t records) {
  return records == 1 ? "layer record" : "layer records";
}

Totals add_up(std::span<const LayerPlan> plans, std::span<const Evidence> evidence) {
  Totals totals;
  for (std::size_t first = 0, end = 0; first < plans.size(); first = end) {
    const Evidence about = evidence_at(evidence, first);
    Comparison slowest;
    bool costed = false;
    std::int64_t rows = 0;
    do {
      const Comparison one = compare(plans[end]);
      slowest = {.exact = std::max(slowest.exact, one.exact),
                 .padded = std::max(slowest.padded, one.padded)};
      costed = costed || plans[end].suggested.has_value();
      rows = checked_add(rows, plans[end].load.useful_rows, "counts (--rows): rows of all layers");
      ++end;
    } while (end < plans.size() && about.group >= 0 &&
             evidence_at(evidence, end).group == about.group);
    if (rows == 0) continue;
    ++totals.routed;
    totals.rows = checked_add(totals.rows, rows, "counts (--rows): rows of all layers");
    totals.ranks = totals.ranks || end - first > 1;
    if (costed) ++totals.costed;
    if (about.summed) ++totals.summed;
    if (!costed || about.summed) continue;
    ++totals.judged;
    totals.time.exact += slowest.exact;
    totals.time.padded += slowest.padded;
    if (slowest.worthwhile()) ++totals.recommended;
  }
  return totals;
}

/// The ledgers of all plans, tile by tile of the first plan.
std::vector<TileLedger> sum_tiles(std::span<const LayerPlan> plans) {
  std::vector<TileLedger> sums = plans.front().tiles;
  for (const LayerPlan& plan : plans.subspan(1)) {
    if (plan.tiles.size() != sums.size()) refuse("plans: expected the same tiles in each");
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].padded_rows = checked_add(sums[i].padded_rows, plan.tiles[i].padded_rows,
                                        "counts (--rows): padded rows of all layers");
      sums[i].padding_rows += plan.tiles[i].padding_rows;
    }
  }
  for (TileLedger& sum : sums) {
    sum.padding_fraction = sum.padded_rows == 0 ? 0.0
                                                : static_cast<double>(sum.padding_rows) /
                                                      static_cast<double>(sum.padded_rows);
  }
  return sums;
}

}  // namespace

std::string_view name(Recommendation recommendation) noexcept {
  switch (recommendation) {
    case Recommendation::recommend_trial:
      return "recommend_trial";
    case Recommendation::not_recommended_now:
      return "not_recommended_now";
    case Recommendation::insufficient_evidence:
      return "insufficient_evidence";
  }
  return "unknown";
}

Verdict judge_layer(const LayerPlan& plan, const Evidence& evidence) {
  Verdict verdict;
  const std::string& label = evidence.label;
  if (plan.dense()) {
    verdict.findings.push_back(
        {"no_rows", label + ": no expert has a row: a dense layer of the model, or a step that "
                            "was not recorded."});
    return verdict;
  }
  if (plan.idle()) {
    verdict.findings.push_back({"rank_idle", label + ": no rows on this rank, " +
                                                 rows_text(plan.layer_rows) + " on the others."});
    return verdict;
  }
  if (evidence.summed) verdict.findings.push_back(summed_finding(label));
  if (!plan.suggested) {
    verdict.findings.push_back(tiles_finding(plan.tiles, plan.load.useful_rows, label));
  } else {
    if (!evidence.summed) {
      verdict.findings.push_back(trial_finding(plan, label));
      verdict.recommendation = compare(plan).worthwhile() ? Recommendation::recommend_trial
                                                          : Recommendation::not_recommended_now;
    }
    verdict.findings.push_back(padding_finding(plan, label));
  }
  if (plan.suggested) verdict.findings.push_back(bound_finding(plan, label));
  verdict.findings.push_back(skew_finding(plan, label));
  if (plan.capacity.overflow_rows > 0) {
    verdict.findings.push_back(
        {"capacity_overflow",
         label + ": " + rows_text(plan.capacity.overflow_rows) + " on " +
             grouped(plan.capacity.overflowing_experts) +
             (plan.capacity.overflowing_experts == 1 ? " expert" : " experts") +
             " beyond C = " + grouped(plan.capacity.capacity) +
             ": the padded batch is charged for running them apart."});
  }
  if (evidence.ranks != nullptr) add_rank_findings(*evidence.ranks, label, verdict);
  return verdict;
}

std::vector<std::size_t> worst_first(std::span<const LayerPlan> plans) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const LayerPlan& left = plans[a];
    const LayerPlan& right = plans[b];
    // What has no rows has neither padding nor skew, so it comes last by itself.
    const double left_padding = left.reference_tile().padding_fraction;
    const double right_padding = right.reference_tile().padding_fraction;
    if (left_padding != right_padding) return left_padding > right_padding;
    return left.load.i_max > right.load.i_max;
  });
  return order;
}

Verdict judge_layers(std::span<const LayerPlan> plans, std::span<const Evidence> evidence) {
  if (!evidence.empty() && evidence.size() != plans.size()) {
    refuse("evidence: expected none or " + std::to_string(plans.size()) + ", got " +
           std::to_string(evidence.size()));
  }
  const Totals totals = add_up(plans, evidence);
  Verdict verdict;
  if (totals.routed == 0) {
    verdict.findings.push_back({"no_rows", "no layer has a routed row."});
    return verdict;
  }
  const std::string records = grouped(totals.routed) + " routed " + records_word(totals.routed);
  if (totals.costed > 0 && totals.costed != totals.routed) {
    refuse("plans: expected all with a cost or all without, got both");
  }
  if (totals.summed > 0) {
    verdict.findings.push_back(summed_finding(
        (totals.summed == totals.routed ? "all " : grouped(totals.summed) + " of ") + records));
  }
  if (totals.costed == 0) {
    verdict.findings.push_back(tiles_finding(sum_tiles(plans), totals.rows, records + " together"));
    return verdict;
  }
  if (totals.judged > 0) {
    const bool worthwhile = totals.time.worthwhile();
    verdict.recommendation =
        worthwhile ? Recommendation::recommend_trial : Recommendation::not_recommended_now;
    verdict.findings.insert(
        verdict.findings.begin(),
        {worthwhile ? "saves_padding" : "little_to_gain",
         "exact rows (grouped) over a batch padded to C gain at least " +
             percent(kWorthwhileSaving) + " in " + grouped(totals.recommended) + " of " +
             grouped(totals.judged) + " " + records_word(totals.judged) + "; together " +
             comparison_text(totals.time) + ", estimated" +
             (totals.ranks ? ", of each layer its slowest rank" : "") + "."});
  }
  std::size_t shown = 0;
  for (const std::size_t index : worst_first(plans)) {
    if (shown == kWorstShown || plans[index].idle()) break;
    ++shown;
    verdict.findings.push_back(padding_finding(plans[index], evidence_at(evidence, index).label));
  }
  return verdict;
}

}  // namespace moesaic::planner
