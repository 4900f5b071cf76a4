// SPDX-License-Identifier: Apache-2.0
// `plan` for people.
#include "plan_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

std::string rank_word(std::int64_t rank) { return rank < 0 ? "-" : std::to_string(rank); }

std::string seconds_word(double seconds) {
  if (seconds <= 0) return "0";
  return seconds < 1e-9 ? "< 0.001 us" : duration(seconds);
}

std::string rows_word(std::int64_t rows) {
  return grouped_digits(rows) + (rows == 1 ? " row" : " rows");
}

/// The parts of a label that say that the rows are not the source's own.
std::string rescale_note(const std::string& label) {
  std::string note;
  for (std::size_t at = 0; at < label.size();) {
    const std::size_t end = std::min(label.find("; ", at), label.size());
    const std::string part = label.substr(at, end - at);
    if (part.find("rescaled") != std::string::npos) note += (note.empty() ? "" : "; ") + part;
    at = end + 2;
  }
  return note;
}

std::string balance_word(const planner::LayerRoofline& roofline) {
  if (roofline.balance_rows <= 0) {
    return "at these widths no number of rows repays reading the weights";
  }
  return format("an expert needs %s rows to balance, %s of the active ones %s fewer",
                grouped_digits(std::llround(roofline.balance_rows)).c_str(),
                grouped_digits(roofline.experts_below_balance).c_str(),
                roofline.experts_below_balance == 1 ? "has" : "have");
}

/// What a layer waits for: time where there is a cost, else rows in the tile to judge by.
bool slower(const planner::LayerPlan& a, const planner::LayerPlan& b) {
  if (a.suggested && b.suggested) {
    return a.costs[*a.suggested].kernel_s() > b.costs[*b.suggested].kernel_s();
  }
  if (a.idle() != b.idle()) return b.idle();
  return a.reference_tile().padded_rows > b.reference_tile().padded_rows;
}

}  // namespace

void PlanText::take(const routing::Record& whole, const std::vector<routing::Record>& shares,
                    std::vector<planner::LayerPlan>&& plans) {
  many_sources_ = many_sources_ || (!kept_.empty() && kept_.front().source != whole.source);
  if (shares.size() > 1) take_ranks(whole);
  const std::size_t first = plans_.size();
  std::size_t slowest = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (slower(plans[i], plans[slowest])) slowest = i;
    const routing::Record& record = shares[i];
    kept_.push_back({record.source, record.layer, record.step, record.rank, record.invalid_slots,
                     record.aggregation == routing::Aggregation::summed, rescale_note(record.label),
                     shares.size() > 1 ? groups_ : -1});
    planner::LayerPlan slim = plans[i];
    // Assigning {} would empty them and keep their memory.
    slim.offsets = std::vector<std::int64_t>();
    slim.alignments = std::vector<planner::AlignmentLedger>();
    slim.suggestion_reason = std::string();
    plans_.push_back(std::move(slim));
  }
  ++groups_;
  if (worst_) {
    const std::array pair = {plans_[worst_index_], plans_[first + slowest]};
    if (planner::worst_first(pair).front() == 0) return;
  }
  worst_ = std::move(plans[slowest]);
  worst_index_ = first + slowest;
}

void PlanText::take_ranks(const routing::Record& whole) {
  planner::RankReport report = planner::rank_report(whole.counts, *input_.ep, flags_.planner.tiles);
  if (tail_ && report.max_over_mean <= tail_->max_over_mean) return;
  tail_ = std::move(report);
  Kept kept;
  kept.source = whole.source;
  kept.layer = whole.layer;
  kept.step = whole.step;
  tail_label_ = label(kept);
}

std::string PlanText::label(const Kept& kept) const {
  std::string text = "layer " + std::to_string(kept.layer);
  if (kept.step != 0) text += ", step " + std::to_string(kept.step);
  if (kept.rank >= 0) text += ", rank " + std::to_string(kept.rank);
  if (many_sources_) text += " of " + kept.source;
  return text;
}

std::string PlanText::worst_label() const {
  const Kept& kept = kept_[worst_index_];
  return label(kept) + (kept.group >= 0 ? " (the slowest rank of the worst layer)" : "");
}

std::vector<std::size_t> PlanText::shown_order() const {
  std::vector<std::size_t> order = planner::worst_first(plans_);
  if (flags_.by == ViewBy::record) return order;
  std::set<std::pair<std::string, std::int64_t>> seen;
  std::erase_if(order, [&](std::size_t index) {
    const Kept& kept = kept_[index];
    const std::int64_t key = flags_.by == ViewBy::layer  ? kept.layer
                             : flags_.by == ViewBy::step ? kept.step
                                                         : kept.rank;
    return !seen.emplace(kept.source, key).second;
  });
  return order;
}

std::string PlanText::head(const std::vector<std::string>& notes) const {
  std::string text;
  for (const std::string& note : notes) text += note + '\n';
  const planner::DeviceModel& device = planner::device_preset(flags_.planner.device);
  if (!flags_.shape) {
    return text +
           "no --shape: rows only, without cost, roofline, suggested tile or recommendation\n";
  }
  const planner::ProductShape product = planner::product_shape(*flags_.shape, flags_.projection);
  return text + format("%s: %s; d = %lld, h = %lld, %s: N = %lld, K = %lld\n", device.name.c_str(),
                       device.description.c_str(), static_cast<long long>(flags_.shape->d),
                       static_cast<long long>(flags_.shape->h),
                       std::string(planner::name(flags_.projection)).c_str(),
                       static_cast<long long>(product.n), static_cast<long long>(product.k));
}

std::vector<std::string> PlanText::table_row(std::size_t index) const {
  const Kept& kept = kept_[index];
  const planner::LayerPlan& plan = plans_[index];
  std::vector<std::string> row;
  if (many_sources_) row.push_back(kept.source);
  row.insert(row.end(), {std::to_string(kept.layer), std::to_string(kept.step),
                         rank_word(kept.rank), grouped_digits(plan.load.useful_rows),
                         format("%lld/%lld", static_cast<long long>(plan.load.active_experts),
                                static_cast<long long>(plan.load.experts)),
                         format("%.2f", plan.load.effective_experts), format("%.3f", plan.load.i_h),
                         format("%.2f", plan.load.i_max)});
  for (const planner::TileLedger& tile : plan.tiles) row.push_back(percent(tile.padding_fraction));
  if (flags_.shape) {
    row.push_back(plan.suggested ? std::to_string(plan.tiles[*plan.suggested].tile) : "-");
  }
  row.push_back(percent(plan.capacity.rho_pad));
  row.push_back(grouped_digits(plan.capacity.overflow_rows));
  row.push_back(grouped_digits(kept.invalid_slots));
  std::vector<std::string> notes;
  if (plan.idle()) notes.emplace_back(plan.dense() ? "dense: no rows" : "no rows on this rank");
  if (kept.summed) notes.emplace_back("summed");
  if (!kept.note.empty()) notes.push_back(kept.note);
  row.push_back(join(notes, "; "));
  return row;
}

std::string PlanText::table() const {
  std::vector<Column> columns;
  if (many_sources_) columns.push_back({"source", Align::left});
  for (const char* title :
       {"layer", "step", "rank", "rows", "active", "effective", "I_H", "max/mean"}) {
    columns.push_back({title});
  }
  for (const std::int64_t tile : flags_.planner.tiles) {
    columns.push_back({"tail q=" + std::to_string(tile)});
  }
  if (flags_.shape) columns.push_back({"tile"});
  columns.insert(columns.end(), {{"rho_pad"}, {"overflow"}, {"invalid"}, {"", Align::left}});
  const std::vector<std::size_t> order = shown_order();
  const std::size_t shown =
      flags_.top == 0 ? order.size() : std::min(order.size(), static_cast<std::size_t>(flags_.top));
  Table table(std::move(columns));
  for (std::size_t i = 0; i < shown; ++i) table.add(table_row(order[i]));
  std::string text =
      "\nWorst first: tail padding of each tile; rho_pad is the capacity padding of "
      "Eq. 14 under " +
      to_string(flags_.planner.capacity) + "\n" + table.text();
  if (shown < order.size()) {
    text += "and " + grouped_digits(static_cast<std::int64_t>(order.size() - shown)) +
            " more (--top 0 prints all)\n";
  }
  return text;
}

std::string PlanText::ledgers() const {
  const planner::LayerPlan& plan = *worst_;
  const planner::TileLedger& tile = plan.reference_tile();
  const planner::CapacityLedger& capacity = plan.capacity;
  std::vector<std::string> alignments;
  alignments.reserve(plan.alignments.size());
  for (const planner::AlignmentLedger& ledger : plan.alignments) {
    alignments.push_back(
        format("%s (%lld) %s, %s", ledger.name.c_str(), static_cast<long long>(ledger.alignment),
               rows_word(ledger.padding_rows).c_str(), percent(ledger.padding_fraction).c_str()));
  }
  return "\nPadding of " + worst_label() + "; three ledgers for three questions, never added up\n" +
         format("  tail tile  q = %lld executes %s for %s: %s of padding, %s\n",
                static_cast<long long>(tile.tile), rows_word(tile.padded_rows).c_str(),
                grouped_digits(plan.load.useful_rows).c_str(), rows_word(tile.padding_rows).c_str(),
                percent(tile.padding_fraction).c_str()) +
         format(
             "  capacity   %s: C = %s, %s in the batch and %s of overflow; rho_pad (Eq. 14) %s; "
             "idle "
             "%s, %s of the rows executed\n",
             to_string(capacity.rule).c_str(), grouped_digits(capacity.capacity).c_str(),
             rows_word(capacity.executed_rows).c_str(),
             grouped_digits(capacity.overflow_rows).c_str(), percent(capacity.rho_pad).c_str(),
             rows_word(capacity.idle_rows).c_str(), percent(capacity.idle_fraction).c_str()) +
         "  alignment  " + join(alignments, "; ") + "\n";
}

std::string PlanText::cost() const {
  const planner::LayerPlan& plan = *worst_;
  if (plan.costs.empty()) return {};
  Table table({{"  tile"},
               {"matrix work"},
               {"weights"},
               {"launch"},
               {"communication"},
               {"operands once"},
               {"kernel"}});
  for (const planner::CostTerms& terms : plan.costs) {
    table.add({std::to_string(terms.tile), seconds_word(terms.mma_s), seconds_word(terms.weight_s),
               seconds_word(terms.launch_s), seconds_word(terms.communication_s),
               seconds_word(terms.operands_s), seconds_word(terms.kernel_s())});
  }
  std::string text = "\nEstimated cost of " + worst_label() +
                     ", each term apart (kernel = the largest of matrix work, weights and operands "
                     "once, + launch)\n" +
                     table.text();
  if (plan.suggested) {
    text += "  suggested: " + plan.suggestion_reason + "\n";
  }
  const planner::LayerRoofline& roofline = *plan.roofline;
  return text +
         format(
             "  roofline: at least %s (%s-bound, %.1f FLOP/byte, %s of peak); experts one by one "
             "%s; %s\n",
             seconds_word(roofline.bound_s).c_str(), roofline.dram_bound ? "DRAM" : "compute",
             roofline.intensity, percent(roofline.peak_fraction).c_str(),
             seconds_word(roofline.per_expert_bound_s).c_str(), balance_word(roofline).c_str());
}

std::string PlanText::ranks() const {
  if (!tail_) return {};
  const planner::RankReport& report = *tail_;
  std::string text =
      "\nRanks of " + tail_label_ + ", the longest rank tail; the layer waits for the maximum\n" +
      format("  rows: max %s (rank %lld), sum %s, mean %.1f, max/mean %.2f, balancedness %.3f\n",
             grouped_digits(report.max_rows).c_str(), static_cast<long long>(report.max_rank),
             grouped_digits(report.sum_rows).c_str(), report.mean_rows, report.max_over_mean,
             report.balancedness);
  for (const planner::RankTileTail& tail : report.tails) {
    text +=
        format("  P at q = %lld: max %s (rank %lld), sum %s\n", static_cast<long long>(tail.tile),
               grouped_digits(tail.max_padded_rows).c_str(), static_cast<long long>(tail.max_rank),
               grouped_digits(tail.sum_padded_rows).c_str());
  }
  return text;
}

std::string PlanText::verdict() const {
  std::vector<planner::Evidence> evidence;
  evidence.reserve(kept_.size());
  for (const Kept& kept : kept_) {
    evidence.push_back({label(kept), kept.summed, nullptr, kept.group});
  }
  planner::Verdict verdict;
  if (plans_.size() == 1) {
    evidence.front().ranks = tail_ ? &*tail_ : nullptr;
    verdict = planner::judge_layer(plans_.front(), evidence.front());
  } else {
    verdict = planner::judge_layers(plans_, evidence);
    planner::Evidence worst = evidence[worst_index_];
    for (planner::Finding& finding : planner::judge_layer(plans_[worst_index_], worst).findings) {
      const auto same = [&](const planner::Finding& other) {
        return other.sentence == finding.sentence ||
               (other.code == finding.code && finding.code == "summed_average");
      };
      if (std::none_of(verdict.findings.begin(), verdict.findings.end(), same)) {
        verdict.findings.push_back(std::move(finding));
      }
    }
  }
  std::string text = "\nVerdict: " + std::string(name(verdict.recommendation)) +
                     (verdict.recommendation == planner::Recommendation::insufficient_evidence
                          ? "\n"
                          : " (exact rows, grouped, over a batch padded to C)\n");
  for (const planner::Finding& finding : verdict.findings) text += "  " + finding.sentence + "\n";
  if (tail_ && plans_.size() > 1 && tail_->sum_rows > 0) {
    text += format("  %s: rank %lld has %.2f times the mean rows of the %zu ranks.\n",
                   tail_label_.c_str(), static_cast<long long>(tail_->max_rank),
                   tail_->max_over_mean, tail_->ranks.size());
    for (const std::string& warning : tail_->warnings) text += "  " + warning + ".\n";
  }
  return text;
}

std::string PlanText::text(const std::vector<std::string>& notes) const {
  return head(notes) + table() + ledgers() + cost() + ranks() + verdict();
}

std::string explain_text() {
  std::string text = "\nDefinitions\n";
  Table table({{"  name", Align::left}, {"meaning", Align::left}});
  for (const std::string_view name : planner::defined_names()) {
    table.add({"  " + std::string(name), std::string(planner::definition(name))});
  }
  return text + table.text();
}

double printed_factor(const Capacity& capacity) {
  return static_cast<double>(capacity.factor_millionths) / 1e6;
}

std::string plan_csv_head(const PlanFlags& flags) {
  std::vector<std::string> words = {
      "source",  "layer",         "step",        "rank",           "aggregation",       "dense",
      "experts", "invalid_slots", "useful_rows", "active_experts", "effective_experts", "i_h",
      "i_max",   "max_rows"};
  for (const std::int64_t tile : flags.planner.tiles) {
    for (const char* what : {"_padded_rows", "_padding_rows", "_padding_fraction"}) {
      words.push_back("tile" + std::to_string(tile) + what);
    }
  }
  words.insert(words.end(),
               {"capacity_rule", "capacity_factor", "capacity", "rho_pad", "overflow_rows",
                "suggested_tile", "mma_s", "weight_s", "launch_s", "communication_s", "label"});
  return csv_line(words);
}

std::string plan_csv_line(const routing::Record& record, const planner::LayerPlan& plan) {
  const planner::LoadMetrics& load = plan.load;
  std::vector<std::string> words = {record.source,
                                    std::to_string(record.layer),
                                    std::to_string(record.step),
                                    record.rank < 0 ? "" : std::to_string(record.rank),
                                    std::string(to_string(record.aggregation)),
                                    plan.dense() ? "true" : "false",
                                    std::to_string(load.experts),
                                    std::to_string(record.invalid_slots),
                                    std::to_string(load.useful_rows),
                                    std::to_string(load.active_experts),
                                    csv_number(load.effective_experts),
                                    csv_number(load.i_h),
                                    csv_number(load.i_max),
                                    std::to_string(load.max_rows)};
  for (const planner::TileLedger& tile : plan.tiles) {
    words.insert(words.end(), {std::to_string(tile.padded_rows), std::to_string(tile.padding_rows),
                               csv_number(tile.padding_fraction)});
  }
  words.insert(
      words.end(),
      {std::string(name(plan.capacity.rule.rule)), csv_number(printed_factor(plan.capacity.rule)),
       std::to_string(plan.capacity.capacity), csv_number(plan.capacity.rho_pad),
       std::to_string(plan.capacity.overflow_rows)});
  if (plan.suggested) {
    const planner::CostTerms& terms = plan.costs[*plan.suggested];
    words.insert(words.end(),
                 {std::to_string(terms.tile), csv_number(terms.mma_s), csv_number(terms.weight_s),
                  csv_number(terms.launch_s), csv_number(terms.communication_s)});
  } else {
    words.insert(words.end(), 5, "");
  }
  words.push_back(record.label);
  return csv_line(words);
}

}  // namespace moesaic::cli
