// SPDX-License-Identifier: Apache-2.0
// Designs by name, and what they share.
#include "experiment/design.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "experiment/design_parts.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

constexpr std::array<std::string_view, 5> kArms = {"grouped", "padded_bmm", "host_loop", "dense",
                                                   "torch"};

struct Row {
  std::string_view name;
  Design (*make)(const DesignOptions&);
};
constexpr std::array kDesigns = {Row{"fig38", make_fig38},     Row{"fig71", make_fig71},
                                 Row{"table44", make_table44}, Row{"fig40", make_fig40},
                                 Row{"fig72", make_fig72},     Row{"fig73", make_fig73}};
constexpr auto kNames = [] {
  std::array<std::string_view, kDesigns.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kDesigns[i].name;
  return names;
}();

std::string words_of(const std::vector<Arm>& arms) {
  std::vector<std::string> words;
  words.reserve(arms.size());
  for (const Arm arm : arms) words.emplace_back(name(arm));
  return join(words, ", ");
}

void add_reason(Design& design, const std::string& reason) {
  design.protocol = Protocol::reduced;
  design.why_reduced += (design.why_reduced.empty() ? "" : "; ") + reason;
}

}  // namespace

std::string_view name(Arm arm) noexcept { return kArms[static_cast<std::size_t>(arm)]; }
std::string_view name(Protocol protocol) noexcept {
  return protocol == Protocol::full ? "full" : "reduced";
}

Arm parse_arm(std::string_view text) {
  const auto found = std::find(kArms.begin(), kArms.end(), text);
  if (found == kArms.end()) {
    refuse("--arms", "grouped, padded_bmm, host_loop, dense or torch", text);
  }
  return static_cast<Arm>(found - kArms.begin());
}

Protocol parse_protocol(std::string_view text) {
  for (const Protocol protocol : {Protocol::full, Protocol::reduced}) {
    if (name(protocol) == text) return protocol;
  }
  refuse("--protocol", "full or reduced", text);
}

std::string factor_text(const Factors& factors, std::string_view name) {
  for (const Factor& factor : factors) {
    if (factor.name != name) continue;
    if (const auto* number = std::get_if<std::int64_t>(&factor.value)) {
      return std::to_string(*number);
    }
    if (const auto* truth = std::get_if<bool>(&factor.value)) return *truth ? "true" : "false";
    return std::get<std::string>(factor.value);
  }
  return {};
}

double Case::useful_flops() const {
  // A record may hold rows that no device could: this is arithmetic, not an allocation.
  const planner::ProductShape size = product();
  return 2.0 * static_cast<double>(record.rows()) * static_cast<double>(size.n) *
         static_cast<double>(size.k);
}

std::span<const std::string_view> design_names() noexcept { return kNames; }

std::span<const std::string> experiment_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names(kNames.begin(), kNames.end());
    names.insert(names.end(), {"skew", "fig2"});
    return names;
  }();
  return all;
}

bool is_experiment(std::string_view name) {
  const std::span<const std::string> all = experiment_names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

Design make_design(std::string_view name, const DesignOptions& options) {
  for (const Row& row : kDesigns) {
    if (row.name == name) return row.make(options);
  }
  std::vector<std::string> known(kNames.begin(), kNames.end());
  refuse("experiment", join(known, ", ") + ", skew or fig2", name);
}

Start start_design(const Outline& outline, const DesignOptions& options) {
  Start start;
  Design& design = start.design;
  design.name = outline.name;
  design.title = outline.title;
  design.seed = options.seed;
  const bool reduced = options.protocol == Protocol::reduced;
  if (reduced) {
    add_reason(design, "small products, few cases, short regions (--protocol reduced)");
    design.timing.warm_ups = 2;
    design.timing.samples = 5;
  }
  for (const Arm arm : options.arms) {
    if (std::find(outline.allowed.begin(), outline.allowed.end(), arm) == outline.allowed.end()) {
      refuse("--arms", "arms of " + design.name + ": " + words_of(outline.allowed), name(arm));
    }
  }
  start.arms = options.arms.empty() ? outline.arms : options.arms;
  if (options.trials > 0 && outline.trials == 0) {
    refuse("--trials", "an experiment that has trials (table44, fig40, fig73)", design.name);
  }
  start.trials = reduced ? outline.reduced_trials : outline.trials;
  if (options.trials > 0) start.trials = options.trials;
  if (!reduced && start.trials < outline.trials) {
    add_reason(design, format("%lld of %lld trials", static_cast<long long>(start.trials),
                              static_cast<long long>(outline.trials)));
  }
  return start;
}

routing::Record even_record(std::int64_t rows, std::int64_t experts) {
  return routing::generate("uniform", {.rows = rows, .experts = experts, .seed = 0});
}

routing::Record made_record(std::string source, std::vector<std::int64_t> counts,
                            std::string label) {
  routing::Record record;
  record.source = std::move(source);
  record.counts = std::move(counts);
  record.label = std::move(label);
  record.aggregation = routing::Aggregation::per_step;
  return record;
}

std::vector<std::int64_t> evenly(std::int64_t units, std::int64_t parts) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(parts), units / parts);
  for (std::int64_t i = 0; i < units % parts; ++i) ++shares[static_cast<std::size_t>(i)];
  return shares;
}

std::vector<Arm> rotated(const std::vector<Arm>& arms, std::int64_t first) {
  std::vector<Arm> result = arms;
  if (!result.empty()) {
    std::rotate(result.begin(), result.begin() + first % static_cast<std::int64_t>(result.size()),
                result.end());
  }
  return result;
}

}  // namespace moesaic::cli::experiment
