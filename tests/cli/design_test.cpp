// SPDX-License-Identifier: Apache-2.0
// Designs: totals, alignments, ranges of I_H, permutations, counterbalance, pairs; and that a seed
// decides all of it.
#include "tools/moesaic/experiment/design.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "moesaic/error.hpp"
#include "tests/support/expect_error.hpp"

namespace moesaic::cli::experiment {
namespace {

using Counts = std::vector<std::int64_t>;

Design full(std::string_view name) { return make_design(name, {}); }
Design reduced(std::string_view name) { return make_design(name, {.protocol = Protocol::reduced}); }

std::int64_t number(const Case& one, std::string_view factor) {
  const std::string text = factor_text(one.factors, factor);
  EXPECT_FALSE(text.empty()) << factor << " of " << one.key;
  return std::stoll(text);
}
std::string word(const Case& one, std::string_view factor) {
  return factor_text(one.factors, factor);
}
bool is_control(const Case& one) { return word(one, "control") == "true"; }

Counts sorted(Counts counts) {
  std::sort(counts.begin(), counts.end());
  return counts;
}

TEST(Design, EveryCaseOfEveryDesignHasAKeyRowsAndArms) {
  for (const std::string_view name : design_names()) {
    for (const Design& design : {full(name), reduced(name)}) {
      std::set<std::string> keys;
      std::int64_t process = 0;
      ASSERT_FALSE(design.cases.empty()) << name;
      EXPECT_EQ(design.protocol == Protocol::full, design.why_reduced.empty()) << name;
      for (const Case& one : design.cases) {
        EXPECT_TRUE(keys.insert(one.key).second) << name << ": " << one.key;
        EXPECT_FALSE(one.factors.empty()) << one.key;
        EXPECT_FALSE(one.arms.empty()) << one.key;
        EXPECT_GT(one.record.rows(), 0) << one.key;
        EXPECT_GE(one.process, process) << one.key;
        process = one.process;
      }
      EXPECT_EQ(process, design.processes - 1) << name;
    }
  }
}

TEST(Design, ASeedDecidesEverything) {
  for (const std::string_view name : design_names()) {
    const Design first = full(name), second = full(name);
    ASSERT_EQ(first.cases.size(), second.cases.size());
    for (std::size_t i = 0; i < first.cases.size(); ++i) {
      EXPECT_EQ(first.cases[i].key, second.cases[i].key);
      EXPECT_EQ(first.cases[i].record.counts, second.cases[i].record.counts);
      EXPECT_EQ(first.cases[i].arms, second.cases[i].arms);
    }
  }
  const Design other = make_design("fig40", {.seed = 2});
  EXPECT_NE(full("fig40").cases[1].record.counts, other.cases[1].record.counts);
}

TEST(Design, CapacitySweeps) {
  const Design fig38 = full("fig38"), fig71 = full("fig71");
  EXPECT_EQ(fig38.cases.front().record.rows(), 64);
  EXPECT_EQ(fig38.cases.back().record.rows(), 131072);
  EXPECT_EQ(fig71.cases.front().record.rows(), 4096);
  EXPECT_EQ(fig71.cases.back().record.rows(), 262144);
  for (const Design* design : {&fig38, &fig71}) {
    EXPECT_EQ(design->timing.regime, Regime::short_burst);
    EXPECT_EQ(design->timing.warm_ups, 10);
    EXPECT_EQ(design->timing.samples, 20);
    for (const Case& one : design->cases) {
      EXPECT_EQ(one.experts(), 16);
      EXPECT_EQ(one.product().n, design == &fig38 ? 4096 : 2048);
      EXPECT_EQ(one.product().k, one.product().n);
      EXPECT_EQ(Counts(16, one.record.rows() / 16), one.record.counts);
      EXPECT_EQ(one.arms.size(), 5U);
    }
  }
}

TEST(Design, OneProjectionSplitTwoWays) {
  const Design design = full("table44");
  ASSERT_EQ(design.cases.size(), 17U * 2 * 8);
  EXPECT_EQ(design.timing.regime, Regime::sustained);
  EXPECT_EQ(design.timing.regions.pilot_seconds, 3);
  EXPECT_EQ(design.timing.regions.conditioning_seconds, 8);
  EXPECT_EQ(design.timing.regions.measured_seconds, 1.5);
  std::map<std::int64_t, int> by_tokens;
  for (const Case& one : design.cases) {
    const std::int64_t tokens = number(one, "tokens"), partition = number(one, "partition");
    ++by_tokens[tokens];
    EXPECT_EQ(one.product().k, 8192);
    EXPECT_EQ(one.product().n * partition, 81920);
    EXPECT_EQ(one.record.counts, Counts(static_cast<std::size_t>(partition), tokens));
    EXPECT_EQ(one.useful_flops(), 2.0 * static_cast<double>(tokens) * 8192 * 81920);
    EXPECT_EQ(one.dense, DenseControl::joined);
    EXPECT_EQ(one.expert_rows, ExpertRows::repeated);
  }
  ASSERT_EQ(by_tokens.size(), 17U);
  for (const auto& [tokens, cases] : by_tokens) {
    EXPECT_EQ(tokens & (tokens - 1), 0);
    EXPECT_EQ(cases, 16);
  }
}

TEST(Design, TrialsAreCounterbalanced) {
  // Which partition comes first, and which arm: every combination equally often.
  std::map<std::pair<std::int64_t, Arm>, int> orders;
  const Design design = full("table44");
  for (std::size_t i = 0; i < design.cases.size(); i += 2) {
    const Case &first = design.cases[i], &second = design.cases[i + 1];
    EXPECT_EQ(number(first, "tokens"), number(second, "tokens"));
    EXPECT_EQ(number(first, "trial"), number(second, "trial"));
    EXPECT_NE(number(first, "partition"), number(second, "partition"));
    EXPECT_EQ(first.arms, second.arms);
    ++orders[{number(first, "partition"), first.arms.front()}];
  }
  ASSERT_EQ(orders.size(), 4U);
  for (const auto& [order, count] : orders) EXPECT_EQ(count, 17 * 2);
}

TEST(Design, HistogramsFillTheirRanges) {
  for (const auto& [design, rows, tile, per_bin, permutations] :
       {std::tuple{full("fig40"), 65536, 128, 10, 4},
        std::tuple{reduced("fig40"), 4096, 32, 2, 2}}) {
    std::map<std::int64_t, std::set<Counts>> of_bin, of_histogram, twins;
    std::map<std::int64_t, std::set<Counts>> orders;
    for (const Case& one : design.cases) {
      EXPECT_EQ(one.record.rows(), rows);
      if (is_control(one)) continue;
      const bool aligned = word(one, "aligned") == "true";
      for (const std::int64_t count : one.record.counts) {
        EXPECT_GE(count, aligned ? tile : 8) << one.key;
        EXPECT_EQ(count % (aligned ? tile : 8), 0) << one.key;
      }
      const std::int64_t histogram = number(one, "histogram");
      (aligned ? twins : of_histogram)[histogram].insert(sorted(one.record.counts));
      if (aligned) continue;
      const double i_h = planner::measure_load(one.record.counts).i_h;
      EXPECT_EQ(static_cast<std::int64_t>(i_h * 10), number(one, "bin")) << one.key;
      of_bin[number(one, "bin")].insert(sorted(one.record.counts));
      orders[histogram].insert(one.record.counts);
    }
    ASSERT_EQ(of_bin.size(), 10U);
    for (const auto& [bin, distinct] : of_bin)
      EXPECT_EQ(static_cast<int>(distinct.size()), per_bin);
    ASSERT_EQ(static_cast<int>(of_histogram.size()), 10 * per_bin);
    for (const auto& [histogram, distinct] : of_histogram) {
      EXPECT_EQ(distinct.size(), 1U);  // permutations of one
      EXPECT_EQ(twins[histogram].size(), 1U);
      EXPECT_LE(static_cast<int>(orders[histogram].size()), permutations);
      EXPECT_GT(orders[histogram].size(), 1U);
    }
  }
}

TEST(Design, ControlsBracketEveryTenCasesOfAProcess) {
  const Design design = full("fig40");
  EXPECT_EQ(design.processes, 3);
  std::map<std::int64_t, Counts> run_lengths;  // cases between controls, per process
  std::map<std::int64_t, std::int64_t> controls;
  std::map<std::int64_t, std::vector<std::string>> order;
  for (const Case& one : design.cases) {
    if (is_control(one)) {
      EXPECT_EQ(one.record.counts, Counts(16, 4096));
      EXPECT_EQ(number(one, "block"), controls[one.process]++);
      run_lengths[one.process].push_back(0);
    } else {
      ASSERT_FALSE(run_lengths[one.process].empty()) << "a case before the first control";
      ++run_lengths[one.process].back();
      order[one.process].push_back(one.key.substr(0, one.key.find(" run")));
    }
  }
  for (auto& [process, lengths] : run_lengths) {
    EXPECT_EQ(lengths.back(), 0);
    lengths.pop_back();
    EXPECT_EQ(lengths, Counts(100 * 4 * 2 / 10, 10));
  }
  EXPECT_NE(order[0], order[1]);  // another random order of the same cases
  std::sort(order[0].begin(), order[0].end());
  std::sort(order[1].begin(), order[1].end());
  EXPECT_EQ(order[0], order[1]);
}

TEST(Design, PairsAgreeInTheirFigureAlone) {
  for (const Design& design : {full("fig72"), reduced("fig72")}) {
    std::map<std::string, std::map<std::string, planner::LoadMetrics>> triples;
    for (const Case& one : design.cases) {
      const std::string triple =
          word(one, "rows") + " " + word(one, "base_expert") + " " + word(one, "pair");
      triples[triple][word(one, "load")] = planner::measure_load(one.record.counts);
      EXPECT_EQ(one.record.rows(), number(one, "rows"));
      for (const std::int64_t count : one.record.counts) EXPECT_EQ(count % 8, 0);
      const auto base = static_cast<std::size_t>(number(one, "base_expert"));
      if (word(one, "load") == "balanced") continue;
      const std::int64_t most =
          *std::max_element(one.record.counts.begin(), one.record.counts.end());
      EXPECT_EQ(one.record.counts[base], most) << one.key;
      if (word(one, "load") != "three_hot") continue;
      EXPECT_EQ(one.record.counts[(base + 5) % 16], most);
      EXPECT_EQ(one.record.counts[(base + 10) % 16], most);
    }
    for (const auto& [triple, loads] : triples) {
      ASSERT_EQ(loads.size(), 3U) << triple;
      const planner::LoadMetrics &spike = loads.at("single_spike"), &three = loads.at("three_hot");
      const std::string pair = triple.substr(triple.rfind(' ') + 1);
      const double coarse =
          16.0 * 8 / static_cast<double>(spike.useful_rows);  // one tile of eight rows
      if (pair == "i_max") {
        EXPECT_EQ(spike.max_rows, three.max_rows);
        EXPECT_NEAR(spike.i_max, 16 * 0.95 / 3, coarse);
        EXPECT_LT(spike.i_h, 0.5 * three.i_h);
      } else if (pair == "i_h") {
        EXPECT_NEAR(spike.i_h, three.i_h, coarse);
        EXPECT_GT(spike.i_max, 1.5 * three.i_max);
      } else {
        EXPECT_NEAR(spike.effective_experts, three.effective_experts, 4 * coarse);
        EXPECT_GT(spike.i_max, 1.2 * three.i_max);
      }
    }
  }
  EXPECT_EQ(full("fig72").processes, 5);
}

TEST(Design, SustainedSizesAreShuffledPerTrial) {
  const Design design = full("fig73");
  ASSERT_EQ(design.cases.size(), 4U * 8);
  std::map<std::int64_t, std::vector<std::int64_t>> sizes;
  std::map<Arm, int> firsts;
  for (const Case& one : design.cases) {
    sizes[number(one, "trial")].push_back(number(one, "rows_per_expert"));
    EXPECT_EQ(one.record.counts, Counts(16, number(one, "rows_per_expert")));
    ++firsts[one.arms.front()];
  }
  EXPECT_EQ(sizes.size(), 8U);
  EXPECT_EQ(firsts.size(), 3U);
  std::set<std::vector<std::int64_t>> orders;
  for (const auto& [trial, order] : sizes) orders.insert(order);
  EXPECT_GT(orders.size(), 1U);
}

routing::Record record(std::string source, Counts counts) {
  routing::Record one;
  one.source = std::move(source);
  one.counts = std::move(counts);
  return one;
}

TEST(Design, SkewReplaysAndPairs) {
  const planner::LayerShape shape = {.d = 64, .h = 32};
  const std::vector<routing::Record> records = {
      record("a", {10, 10, 10, 10}), record("b", {37, 1, 1, 1}), record("c", {20, 10, 5, 5}),
      record("dense", {0, 0, 0, 0}), record("d", {100, 100, 200, 600})};
  const Design design = make_skew(records, shape, planner::Projection::up_gate, {});
  std::vector<const Case*> pairs;
  for (const Case& one : design.cases) {
    EXPECT_EQ(one.product().n, 64);
    if (!word(one, "pair").empty()) pairs.push_back(&one);
  }
  EXPECT_EQ(design.cases.size(), 4U + pairs.size());
  EXPECT_EQ(word(design.cases[0], "bucket"), "decode");
  EXPECT_EQ(word(design.cases[3], "bucket"), "prefill");
  ASSERT_EQ(pairs.size(), 4U);
  EXPECT_EQ(pairs[0]->record.counts, (Counts{10, 10, 10, 10}));
  EXPECT_EQ(word(*pairs[0], "load"), "broad");
  EXPECT_EQ(pairs[1]->record.counts, (Counts{37, 1, 1, 1}));
  EXPECT_EQ(word(*pairs[1], "load"), "concentrated");
  EXPECT_EQ(word(*pairs[0], "pair"), word(*pairs[1], "pair"));
  EXPECT_EQ(pairs[2]->record.counts, (Counts{250, 250, 250, 250}));  // alone: against even rows
}

TEST(Design, SkewKeysStayUniqueWhenAFileIsGivenTwice) {
  const std::vector<routing::Record> records = {record("a", {3, 4}), record("a", {3, 4})};
  const Design design = make_skew(records, {.d = 64, .h = 32}, planner::Projection::down, {});
  std::set<std::string> keys;
  for (const Case& one : design.cases) EXPECT_TRUE(keys.insert(one.key).second) << one.key;
}

TEST(Design, Refusals) {
  using testing::expect_error;
  constexpr ErrorCode kBad = ErrorCode::invalid_argument;
  expect_error(kBad, {"experiment", "fig38", "fig39"}, [] { make_design("fig39", {}); });
  expect_error(kBad, {"--arms", "fig40", "dense"},
               [] { make_design("fig40", {.arms = {Arm::dense}}); });
  expect_error(kBad, {"--trials", "fig38"}, [] { make_design("fig38", {.trials = 2}); });
  expect_error(kBad, {"input", "rows"}, [] {
    make_skew({record("a", {0})}, {.d = 64, .h = 32}, planner::Projection::down, {});
  });
}

TEST(Design, FewerTrialsThanTheClaimAreReduced) {
  EXPECT_EQ(make_design("table44", {.trials = 8}).protocol, Protocol::full);
  const Design one = make_design("table44", {.trials = 1});
  EXPECT_EQ(one.protocol, Protocol::reduced);
  EXPECT_NE(one.why_reduced.find("1 of 8"), std::string::npos) << one.why_reduced;
  EXPECT_EQ(one.cases.size(), 34U);
  EXPECT_EQ(one.timing.regions.pilot_seconds, 3);  // the rest as the claim has it
}

}  // namespace
}  // namespace moesaic::cli::experiment
