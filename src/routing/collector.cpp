// SPDX-License-Identifier: Apache-2.0
// Bodies of Collector: per-record checks and the warnings that need a whole source.
#include "routing/collector.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace moesaic::routing {
namespace {

constexpr std::size_t kMaxWarnings = 100;

std::string percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g%%", 100 * fraction);
  return text;
}

/// "0-2, 5": runs of consecutive layers.
std::string ranges(const std::vector<std::int64_t>& values) {
  std::string out;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t j = i;
    while (j + 1 < values.size() && values[j + 1] == values[j] + 1) ++j;
    if (!out.empty()) out += ", ";
    out += std::to_string(values[i]);
    if (j > i) out += "-" + std::to_string(values[j]);
    i = j + 1;
  }
  return out;
}

bool counts_like(Form form) { return form == Form::counts || form == Form::weights; }

}  // namespace

std::string place_of(const Record& record) {
  std::string out = concat("layer ", record.layer, ", step ", record.step);
  if (record.rank >= 0) out += concat(", rank ", record.rank);
  return out;
}

void offsets_to_counts(std::vector<std::int64_t>& values, std::optional<std::int64_t> experts,
                       const std::string& place) {
  const auto size = static_cast<std::int64_t>(values.size());
  if (experts && size == *experts + 1 && values.front() == 0) values.erase(values.begin());
  std::int64_t previous = 0;
  for (std::size_t expert = 0; expert < values.size(); ++expert) {
    const std::int64_t end = values[expert];
    if (end < previous) {
      fail(place, ": offset of expert ", expert, " is ", end, ", less than ", previous,
           " before it; end offsets never decrease");
    }
    values[expert] = end - previous;
    previous = end;
  }
}

Collector::Collector(std::string source, const ReadOptions& options, const RecordSink& sink)
    : options_(options), sink_(sink) {
  summary_.source = std::move(source);
  if (options.num_experts && (*options.num_experts < 1 || *options.num_experts > kMaxExperts)) {
    refuse("number of experts is ", *options.num_experts, ", expected 1 to ", kMaxExperts);
  }
}

void Collector::begin(std::string format, Form form) {
  summary_.format = std::move(format);
  summary_.form = form;
  if (!options_.form || *options_.form == form) return;
  const Form asked = *options_.form;
  if (counts_like(form) && (counts_like(asked) || asked == Form::offsets)) {
    summary_.form = asked;
    return;
  }
  refuse("is ", summary_.format, " and holds ", to_string(form), ", but form ", to_string(asked),
         " was asked for");
}

void Collector::describe(Aggregation aggregation, IdSpace id_space, std::int64_t top_k) {
  summary_.aggregation = aggregation;
  summary_.id_space = id_space;
  summary_.top_k = top_k;
}

std::int64_t Collector::required_experts(std::string_view what) const {
  if (!options_.num_experts) {
    refuse(what, " do not say how many experts the model has: give --experts N");
  }
  return *options_.num_experts;
}

void Collector::add_warning(std::string text) {
  auto& warnings = summary_.warnings;
  if (std::find(warnings.begin(), warnings.end(), text) != warnings.end()) return;
  if (warnings.size() < kMaxWarnings) {
    warnings.push_back(std::move(text));
  } else if (warnings.size() == kMaxWarnings) {
    warnings.push_back(source() + ": further warnings are left out");
  }
}

void Collector::check_sizes(const Record& record) const {
  const auto experts = static_cast<std::int64_t>(record.counts.size());
  if (experts < 1 || experts > kMaxExperts) {
    refuse(place_of(record), ": ", experts, " experts, expected 1 to ", kMaxExperts);
  }
  const auto wanted = options_.num_experts;
  const bool spare_slots = record.id_space == IdSpace::physical && wanted && experts > *wanted;
  if (wanted && experts != *wanted && !spare_slots) {
    refuse(place_of(record), ": ", experts, " counts, but --experts says ", *wanted);
  }
  if (record.layer < 0 || record.step < 0 || record.rank < -1) {
    refuse(place_of(record), ": layer, step and rank must be 0 or more");
  }
}

std::int64_t Collector::checked_slots(const Record& record) const {
  std::int64_t slots = record.invalid_slots;
  for (std::size_t expert = 0; expert < record.counts.size(); ++expert) {
    const std::int64_t count = record.counts[expert];
    if (count < 0) {
      refuse(place_of(record), ", expert ", expert, ": count ", count,
             ", expected 0 or more (a 32-bit counter that wrapped?)");
    }
    if (__builtin_add_overflow(slots, count, &slots)) {
      refuse(place_of(record), ": the sum of the counts is past 2^63 - 1");
    }
  }
  return slots;
}

void Collector::emit(Record&& record) {
  record.source = source();
  if (summary_.form == Form::offsets) {
    offsets_to_counts(record.counts, options_.num_experts,
                      concat(source(), ": ", place_of(record)));
  }
  check_sizes(record);
  note(record, checked_slots(record));
  const auto& want = options_;
  if ((want.layer && record.layer != *want.layer) || (want.step && record.step != *want.step))
    return;
  ++summary_.records;
  sink_(std::move(record));
}

void Collector::note(const Record& record, std::int64_t slots) {
  summary_.experts = std::max(summary_.experts, static_cast<std::int64_t>(record.counts.size()));
  layer_has_rows_[record.layer] |= slots > 0;
  if (record.id_space == IdSpace::physical) ++physical_records_;
  if (!seen_.emplace(record.step, record.layer, record.rank).second)
    duplicates_.add(place_of(record));
  if (slots > 0) {
    auto [it, fresh] = sums_.try_emplace({record.step, record.rank},
                                         Extent{slots, record.layer, slots, record.layer});
    Extent& extent = it->second;
    if (!fresh && slots < extent.low) extent.low = slots, extent.low_layer = record.layer;
    if (!fresh && slots > extent.high) extent.high = slots, extent.high_layer = record.layer;
  }
  note_tokens(record, slots);
}

void Collector::note_tokens(const Record& record, std::int64_t slots) {
  if (record.top_k <= 0) return;
  if (slots % record.top_k != 0) {
    indivisible_.add(concat(place_of(record), " has ", slots));
    indivisible_top_k_ = record.top_k;
  }
  std::int64_t routed = 0;
  if (record.tokens < 0 || __builtin_mul_overflow(record.tokens, record.top_k, &routed)) return;
  if (slots == routed) return;
  const auto& counts = record.counts;
  const bool like_offsets = std::is_sorted(counts.begin(), counts.end()) && counts.back() == routed;
  if (like_offsets && !options_.form) {
    maybe_offsets_.add(place_of(record));
  } else {
    token_mismatch_.add(concat(place_of(record), " has ", slots, ", expected ", record.tokens,
                               " tokens x top-", record.top_k, " = ", routed));
  }
}

void Collector::warn_dense_layers() {
  std::vector<std::int64_t> dense;
  for (const auto& [layer, has_rows] : layer_has_rows_) {
    if (!has_rows) dense.push_back(layer);
  }
  if (dense.empty()) return;
  warn("all-zero (dense) layers: ", ranges(dense), " (", dense.size(), " of ",
       layer_has_rows_.size(), ")");
}

void Collector::warn_unequal_layers() {
  std::int64_t unequal = 0;
  double worst = 0;
  std::string example;
  for (const auto& [where, extent] : sums_) {
    if (extent.low == extent.high) continue;
    ++unequal;
    const double gap =
        static_cast<double>(extent.high - extent.low) / static_cast<double>(extent.high);
    if (gap <= worst) continue;
    worst = gap;
    example = concat("step ", where.first);
    if (where.second >= 0) example += concat(", rank ", where.second);
    if (extent.low_layer == extent.high_layer) {
      example += concat(": layer ", extent.low_layer, " comes more than once, with ", extent.low,
                        " to ", extent.high, " rows");
      continue;
    }
    example += concat(": layer ", extent.low_layer, " has ", extent.low, " rows, layer ",
                      extent.high_layer, " has ", extent.high);
  }
  if (unequal == 0) return;
  warn("unequal layer sums, by up to ", percent(worst), " (", example, "; unequal in ", unequal,
       " of ", sums_.size(),
       " steps): a recording window cut off, or several models' layers in one file");
}

void Collector::warn_tallies() {
  if (duplicates_.times > 0) {
    warn("records whose layer and step came before: ", duplicates_.times, ", first ",
         duplicates_.first);
  }
  if (indivisible_.times > 0) {
    warn("records whose sum is not divisible by top_k ", indivisible_top_k_, ": ",
         indivisible_.times, ", first ", indivisible_.first);
  }
  if (token_mismatch_.times > 0) {
    warn("records whose sum is not tokens x top_k: ", token_mismatch_.times, ", first ",
         token_mismatch_.first);
  }
  if (maybe_offsets_.times > 0) {
    warn("ambiguous records, which never decrease and end at tokens x top_k as offsets would: ",
         maybe_offsets_.times, ", first ", maybe_offsets_.first,
         "; read as counts (--form offsets or --form counts settles it)");
  }
  if (summary_.aggregation == Aggregation::summed) {
    warn("counts are summed over many forward passes: read as one step they are an average");
  }
  if (physical_records_ > 0) {
    warn(
        "ids are physical slots and there is no placement map: replicas of one expert count apart");
  }
}

void Collector::refuse_empty() const {
  if (layer_has_rows_.empty()) refuse(summary_.format, " without a single record");
  std::string wanted;
  if (options_.layer) wanted += concat("layer ", *options_.layer);
  if (options_.step) wanted += concat(wanted.empty() ? "" : ", ", "step ", *options_.step);
  std::int64_t low_step = std::get<0>(*seen_.begin()), high_step = std::get<0>(*seen_.rbegin());
  refuse("no record of ", wanted, "; the file has layers ", layer_has_rows_.begin()->first, " to ",
         layer_has_rows_.rbegin()->first, " and steps ", low_step, " to ", high_step);
}

SourceSummary Collector::finish() {
  if (summary_.records == 0) refuse_empty();
  summary_.layers = static_cast<std::int64_t>(layer_has_rows_.size());
  warn_dense_layers();
  warn_unequal_layers();
  warn_tallies();
  return std::move(summary_);
}

}  // namespace moesaic::routing
