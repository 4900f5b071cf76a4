// SPDX-License-Identifier: Apache-2.0
// A plan in words. The question is always the same: is a trial of exact-row execution in place of
// the padded batch worth somebody's time? Every sentence carries its numbers; nothing here computes
// new ones.
#include <algorithm>
#include <numeric>
#include <string>

#include "moesaic/planner.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

// A saving below this is within what clocks and neighbours change between two runs.
constexpr double kWorthwhileSaving = 0.05;
constexpr double kSmallPadding = 0.10;
constexpr double kLargePadding = 0.25;
constexpr double kRankTail = 1.10;  // the slowest rank's rows over the mean
constexpr std::size_t kWorstShown = 3;

/// Exact-row execution against the padded batch, in seconds where a shape is known, else in rows.
struct Comparison {
  double exact = 0, padded = 0;
  bool seconds = false;
  [[nodiscard]] double saving() const { return padded > 0 ? 1 - exact / padded : 0.0; }
};

Comparison compare(const LayerPlan& plan) {
  if (plan.suggested) {
    return {.exact = plan.costs.at(*plan.suggested).kernel_s(),
            .padded = plan.padded_batch_s,
            .seconds = true};
  }
  return {.exact = static_cast<double>(plan.reference_tile().padded_rows),
          .padded = static_cast<double>(plan.capacity.executed_rows)};
}

std::string quantity(double value, bool seconds) {
  return seconds ? duration(value) : grouped(static_cast<std::int64_t>(value)) + " executed rows";
}

std::string comparison_text(const Comparison& comparison) {
  const double saving = comparison.saving();
  return quantity(comparison.exact, comparison.seconds) + " against " +
         quantity(comparison.padded, comparison.seconds) + " for the padded batch, " +
         percent(saving < 0 ? -saving : saving) + (saving < 0 ? " more" : " less") +
         (comparison.seconds ? ", both estimated" : "");
}

Finding trial_finding(const LayerPlan& plan, const std::string& label) {
  const Comparison comparison = compare(plan);
  const bool worthwhile = comparison.saving() >= kWorthwhileSaving;
  return {worthwhile ? "saves_padding" : "little_to_gain",
          label + ": exact rows at tile " + std::to_string(plan.reference_tile().tile) + " take " +
              comparison_text(comparison) + " (capacity " + to_string(plan.capacity.rule) +
              ", C = " + grouped(plan.capacity.capacity) + ")."};
}

Finding padding_finding(const LayerPlan& plan, const std::string& label) {
  const TileLedger& tile = plan.reference_tile();
  const char* code = tile.padding_fraction < kSmallPadding   ? "padding_small"
                     : tile.padding_fraction < kLargePadding ? "padding_moderate"
                                                             : "padding_large";
  return {code, label + ": tile " + std::to_string(tile.tile) + " executes " +
                    grouped(tile.padded_rows) + " rows for " +
                    grouped(tile.padded_rows - tile.padding_rows) + " routed ones, " +
                    percent(tile.padding_fraction) + " tail padding."};
}

Finding skew_finding(const LayerPlan& plan, const std::string& label) {
  const LoadMetrics& load = plan.load;
  const bool large = load.effective_experts < 0.5 * static_cast<double>(load.experts);
  return {large ? "skew_large" : "skew_small",
          label + ": " + grouped(load.active_experts) + " of " + grouped(load.experts) +
              " experts are active, " + fixed(load.effective_experts, 2) +
              " effective; the hottest has " + grouped(load.max_rows) + " rows, " +
              fixed(load.i_max, 2) + " times the mean."};
}

Finding bound_finding(const LayerPlan& plan, const std::string& label) {
  const CostTerms& cost = plan.costs.at(*plan.suggested);
  const bool launch = cost.launch_s > cost.mma_s && cost.launch_s > cost.weight_s;
  const bool weight = !launch && cost.weight_s > cost.mma_s;
  std::string sentence = label + ": matrix work " + duration(cost.mma_s) + ", weights " +
                         duration(cost.weight_s) + ", launch " + duration(cost.launch_s);
  if (launch) {
    return {"launch_bound",
            sentence + ": bound by the launch, so neither padding nor the tile decides."};
  }
  sentence += weight ? ": bound by weight traffic, so padded rows cost little time"
                     : ": bound by matrix work, so padded rows cost time";
  if (plan.roofline->balance_rows == 0) {
    sentence += "; at these widths no number of rows repays reading the weights";
  } else if (plan.roofline->experts_below_balance > 0) {
    sentence += "; " + grouped(plan.roofline->experts_below_balance) + " of " +
                grouped(plan.load.active_experts) + " active experts have fewer than the " +
                fixed(plan.roofline->balance_rows, 0) + " rows that repay reading their weights";
  }
  return {weight ? "weight_bound" : "compute_bound", sentence + "."};
}

void add_rank_findings(const RankReport& ranks, const std::string& label, Verdict& verdict) {
  if (ranks.sum_rows == 0) return;
  const bool tail = ranks.max_over_mean >= kRankTail;
  verdict.findings.push_back(
      {tail ? "rank_tail" : "rank_even",
       label + ": rank " + std::to_string(ranks.max_rank) + " of " +
           std::to_string(ranks.ranks.size()) + " has " + grouped(ranks.max_rows) + " of " +
           grouped(ranks.sum_rows) + " rows, " + fixed(ranks.max_over_mean, 2) + " times the mean" +
           (tail ? ": the layer waits for it, and placement helps more than a tile." : ".")});
  for (const std::string& warning : ranks.warnings) {
    verdict.findings.push_back({"rank_idle", label + ": " + warning + "."});
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
  if (evidence.summed) {
    verdict.findings.push_back(summed_finding(label));
  } else {
    verdict.findings.push_back(trial_finding(plan, label));
    verdict.recommendation = compare(plan).saving() >= kWorthwhileSaving
                                 ? Recommendation::recommend_trial
                                 : Recommendation::not_recommended_now;
  }
  verdict.findings.push_back(padding_finding(plan, label));
  if (plan.suggested) verdict.findings.push_back(bound_finding(plan, label));
  verdict.findings.push_back(skew_finding(plan, label));
  if (plan.capacity.overflow_rows > 0) {
    verdict.findings.push_back(
        {"capacity_overflow", label + ": " + grouped(plan.capacity.overflow_rows) +
                                  " rows do not fit C = " + grouped(plan.capacity.capacity) +
                                  " and the padded batch would drop them or run again."});
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
    // A layer without rows has neither padding nor skew, so it comes last by itself.
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
  Verdict verdict;
  std::size_t routed = 0, judged = 0, recommended = 0;
  Comparison total;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].dense()) continue;
    ++routed;
    if (evidence_at(evidence, i).summed) continue;
    const Comparison layer = compare(plans[i]);
    if (judged > 0 && layer.seconds != total.seconds) {
      refuse("plans: expected all with a cost or all without, got both");
    }
    ++judged;
    total.seconds = layer.seconds;
    total.exact += layer.exact;
    total.padded += layer.padded;
    if (layer.saving() >= kWorthwhileSaving) ++recommended;
  }
  if (routed == 0) {
    verdict.findings.push_back({"no_rows", "no layer has a routed row."});
    return verdict;
  }
  if (judged == 0) {
    verdict.findings.push_back(summed_finding("all " + std::to_string(routed) + " routed layers"));
  } else {
    const bool worthwhile = total.saving() >= kWorthwhileSaving;
    verdict.recommendation =
        worthwhile ? Recommendation::recommend_trial : Recommendation::not_recommended_now;
    verdict.findings.push_back({worthwhile ? "saves_padding" : "little_to_gain",
                                std::to_string(recommended) + " of " + std::to_string(judged) +
                                    " layers gain at least " + percent(kWorthwhileSaving) +
                                    "; together exact rows take " + comparison_text(total) + "."});
  }
  std::size_t shown = 0;
  for (const std::size_t index : worst_first(plans)) {
    if (shown == kWorstShown || plans[index].dense()) break;
    ++shown;
    verdict.findings.push_back(padding_finding(plans[index], evidence_at(evidence, index).label));
  }
  return verdict;
}

}  // namespace moesaic::planner
