// SPDX-License-Identifier: Apache-2.0
// Verdicts: which recommendation, for which reason, with which numbers, in the same bytes each
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <locale>
#include <span>
#include <string>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;

PlanOptions with_cost(std::int64_t n, std::int64_t k) {
  PlanOptions options;
  options.cost = CostInput{.product = {.n = n, .k = k}, .d = k, .ep = 1};
  return options;
}

const Finding* find(const Verdict& verdict, std::string_view code) {
  const auto at = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                               [&](const Finding& finding) { return finding.code == code; });
  return at == verdict.findings.end() ? nullptr : &*at;
}

std::string all_text(const Verdict& verdict) {
  std::string text(name(verdict.recommendation));
  for (const Finding& finding : verdict.findings) {
    text += "\n" + finding.code + ": " + finding.sentence;
  }
  return text;
}

TEST(JudgeLayer, TrainingShapeIsWorthATrial) {
  const Verdict verdict = judge_layer(plan_layer(Rows(8, 12288), with_cost(5120, 2048)));
  EXPECT_EQ(verdict.recommendation, Recommendation::recommend_trial) << all_text(verdict);
  EXPECT_EQ(verdict.findings.at(0).code, "saves_padding");
  EXPECT_NE(find(verdict, "padding_small"), nullptr);
  EXPECT_NE(find(verdict, "compute_bound"), nullptr);
  EXPECT_NE(find(verdict, "skew_small"), nullptr);
  EXPECT_NE(verdict.findings[0].sentence.find("C = 15,360"), std::string::npos);
}

TEST(JudgeLayer, DecodeWithEveryExpertActiveIsBoundByWeights) {
  const Verdict verdict = judge_layer(plan_layer(Rows(32, 32), with_cost(5760, 2880)));
  EXPECT_EQ(verdict.recommendation, Recommendation::not_recommended_now) << all_text(verdict);
  EXPECT_EQ(verdict.findings.at(0).code, "little_to_gain");
  const Finding* bound = find(verdict, "weight_bound");
  ASSERT_NE(bound, nullptr) << all_text(verdict);
  EXPECT_NE(bound->sentence.find("32 of 32 active experts"), std::string::npos) << bound->sentence;
}

TEST(JudgeLayer, DecodeWithFewActiveExpertsSavesTheirWeights) {
  Rows counts(32, 0);
  for (std::size_t expert = 0; expert < 4; ++expert) counts[expert] = 256;
  const Verdict verdict = judge_layer(plan_layer(counts, with_cost(5760, 2880)));
  EXPECT_EQ(verdict.recommendation, Recommendation::recommend_trial) << all_text(verdict);
  EXPECT_NE(find(verdict, "skew_large"), nullptr);
  const Finding* overflow = find(verdict, "capacity_overflow");
  ASSERT_NE(overflow, nullptr);
  EXPECT_NE(overflow->sentence.find("864 rows"), std::string::npos) << overflow->sentence;
}

TEST(JudgeLayer, TinyProductsAreBoundByTheLaunch) {
  const Verdict verdict = judge_layer(plan_layer(Rows{5, 0, 1, 1}, with_cost(256, 256)));
  EXPECT_EQ(verdict.recommendation, Recommendation::not_recommended_now) << all_text(verdict);
  EXPECT_NE(find(verdict, "launch_bound"), nullptr) << all_text(verdict);
  // 256 columns never reach the balance point, but 2,000,000 rows outweigh a launch.
  const Verdict narrow = judge_layer(plan_layer(Rows(4, 500000), with_cost(256, 256)));
  const Finding* bound = find(narrow, "row_traffic_bound");
  ASSERT_NE(bound, nullptr) << all_text(narrow);
  EXPECT_NE(bound->sentence.find("at these widths no number of rows"), std::string::npos);
}

TEST(JudgeLayer, WithoutAShapeThePaddingOfEveryTileIsStated) {
  const Verdict verdict = judge_layer(plan_layer(Rows{17, 17, 17, 17, 16, 16, 16, 16}));
  EXPECT_EQ(verdict.recommendation, Recommendation::insufficient_evidence);
  EXPECT_EQ(verdict.findings.at(0).code, "no_shape");
  EXPECT_EQ(verdict.findings[0].sentence,
            "this layer: no widths (--shape), so no recommendation; tail padding of 132 rows: 17.5 "
            "% at tile 8, 31.2 % at tile 16, 48.4 % at tile 32, 74.2 % at tile 64, 87.1 % at tile "
            "128.");
}

TEST(JudgeLayer, OverflowIsChargedToThePaddedBatch) {
  // One expert has nearly everything: C = ceil(1.25 * 8,192 / 8) holds a sixth of it.
  Rows counts(8, 8);
  counts[0] = 8192 - 56;
  const LayerPlan plan = plan_layer(counts, with_cost(5120, 2048));
  ASSERT_EQ(plan.capacity.overflow_rows, 8136 - 1280);
  const Verdict verdict = judge_layer(plan);
  EXPECT_EQ(verdict.recommendation, Recommendation::recommend_trial) << all_text(verdict);
  EXPECT_NE(verdict.findings[0].sentence.find(
                "exact rows (grouped, tile 128) over a batch padded to C = "),
            std::string::npos)
      << verdict.findings[0].sentence;
  EXPECT_NE(verdict.findings[0].sentence.find("of overflow"), std::string::npos);
}

TEST(JudgeLayer, EqualTimesAreTheSame) {
  LayerPlan plan = plan_layer(Rows(8, 1024), with_cost(5120, 2048));
  plan.padded_batch_s = plan.costs.at(*plan.suggested).kernel_s();
  const std::string sentence = judge_layer(plan).findings.at(0).sentence;
  EXPECT_NE(sentence.find(", the same."), std::string::npos) << sentence;
}

TEST(JudgeLayer, AnIdleRankIsNotADenseLayer) {
  PlanOptions options = with_cost(512, 256);
  options.whole = {.rows = 100, .experts = 8};
  const LayerPlan plan = plan_layer(Rows(2, 0), options);
  EXPECT_FALSE(plan.dense());
  EXPECT_TRUE(plan.idle());
  EXPECT_EQ(judge_layer(plan).findings.at(0).code, "rank_idle");
  options.whole->rows = 0;
  EXPECT_TRUE(plan_layer(Rows(2, 0), options).dense());
}

TEST(JudgeLayer, SummedAndEmptyCountsCarryNoAnswer) {
  const LayerPlan plan = plan_layer(Rows(8, 12288), with_cost(5120, 2048));
  const Verdict summed = judge_layer(plan, {.label = "layer 3", .summed = true});
  EXPECT_EQ(summed.recommendation, Recommendation::insufficient_evidence);
  EXPECT_EQ(summed.findings.at(0).code, "summed_average");
  EXPECT_EQ(summed.findings[0].sentence.find("layer 3: "), 0u);
  EXPECT_NE(find(summed, "padding_small"), nullptr);  // numbers are still given
  const Verdict none = judge_layer(plan_layer(Rows(8, 0)));
  EXPECT_EQ(none.recommendation, Recommendation::insufficient_evidence);
  ASSERT_EQ(none.findings.size(), 1u);
  EXPECT_EQ(none.findings[0].code, "no_rows");
}

TEST(JudgeLayer, RankTailAndIdleRank) {
  const Rows counts = {100, 50, 10, 10, 5, 5, 0, 0};
  const RankReport ranks = rank_report(counts, 4, Rows{8});
  const Verdict verdict = judge_layer(plan_layer(counts), {.label = "layer 7", .ranks = &ranks});
  const Finding* tail = find(verdict, "rank_tail");
  ASSERT_NE(tail, nullptr);
  EXPECT_NE(tail->sentence.find("rank 0 of 4 has 150 of 180 rows, 3.33 times the mean"),
            std::string::npos)
      << tail->sentence;
  ASSERT_NE(find(verdict, "rank_idle"), nullptr);
  const RankReport even = rank_report(Rows(8, 5), 4, Rows{8});
  EXPECT_NE(find(judge_layer(plan_layer(Rows(8, 5)), {.ranks = &even}), "rank_even"), nullptr);
}

TEST(WorstFirst, PaddingThenSkewThenInputOrder) {
  const std::vector<LayerPlan> plans = {plan_layer(Rows{0, 0}),       // dense: last
                                        plan_layer(Rows{128, 128}),   // no padding, even
                                        plan_layer(Rows{1, 1}),       // the worst padding
                                        plan_layer(Rows{256, 128}),   // no padding, uneven
                                        plan_layer(Rows{128, 128})};  // as the second
  EXPECT_EQ(worst_first(plans), (std::vector<std::size_t>{2, 3, 1, 4, 0}));
  EXPECT_TRUE(worst_first({}).empty());
}

TEST(JudgeLayers, CountsLayersAndNamesTheWorst) {
  const PlanOptions options = with_cost(5120, 2048);
  const std::vector<LayerPlan> plans = {
      plan_layer(Rows(8, 1024), options), plan_layer(Rows(8, 0), options),
      plan_layer(Rows(8, 2048), options), plan_layer(Rows(8, 1000), options),
      plan_layer(Rows(8, 8), options)};
  const Verdict verdict = judge_layers(plans);
  EXPECT_EQ(verdict.recommendation, Recommendation::recommend_trial) << all_text(verdict);
  EXPECT_NE(verdict.findings.at(0).sentence.find("3 of 4 layer records"), std::string::npos)
      << all_text(verdict);
  ASSERT_EQ(verdict.findings.size(), 4u);  // the sum and three layers
  EXPECT_EQ(verdict.findings[1].sentence.find("layer 3: "), 0u) << all_text(verdict);
}

TEST(JudgeLayers, WithoutAShapeThePaddingIsSummed) {
  const std::vector<LayerPlan> plans = {plan_layer(Rows{1}), plan_layer(Rows{7, 8})};
  const Verdict verdict = judge_layers(plans);
  EXPECT_EQ(verdict.recommendation, Recommendation::insufficient_evidence);
  EXPECT_EQ(verdict.findings.at(0).code, "no_shape");
  // 16 rows in three tiles of 8.
  EXPECT_NE(verdict.findings[0].sentence.find("2 routed layer records together"),
            std::string::npos);
  EXPECT_NE(verdict.findings[0].sentence.find("of 16 rows: 33.3 % at tile 8"), std::string::npos)
      << all_text(verdict);
}

TEST(JudgeLayers, OfTheRanksOfALayerTheSlowestCounts) {
  PlanOptions options = with_cost(5120, 2048);
  options.whole = {.rows = 9 * 8192, .experts = 16};
  const std::vector<LayerPlan> plans = {plan_layer(Rows(8, 8192), options),
                                        plan_layer(Rows(8, 1024), options)};
  const std::vector<Evidence> evidence = {{.label = "rank 0", .group = 5},
                                          {.label = "rank 1", .group = 5}};
  const Verdict ranks = judge_layers(plans, evidence);
  const Verdict slowest = judge_layers(std::span(plans).first(1));
  const auto times = [](const Verdict& verdict) {
    const std::string& sentence = verdict.findings.at(0).sentence;
    const std::size_t at = sentence.find("together ");
    return sentence.substr(at, sentence.find(", estimated") - at);
  };
  EXPECT_EQ(times(ranks), times(slowest));
  EXPECT_NE(ranks.findings[0].sentence.find("0 of 1 layer record;"), std::string::npos)
      << all_text(ranks);
  EXPECT_NE(ranks.findings[0].sentence.find("its slowest rank"), std::string::npos);
  EXPECT_NE(times(judge_layers(plans)), times(slowest));  // two layers do add
}

TEST(JudgeLayers, EvidenceDecidesWhatCanBeSaid) {
  const std::vector<LayerPlan> plans = {plan_layer(Rows(8, 1024)), plan_layer(Rows(8, 1024))};
  const std::vector<Evidence> summed = {{.label = "a", .summed = true},
                                        {.label = "b", .summed = true}};
  EXPECT_EQ(judge_layers(plans, summed).recommendation, Recommendation::insufficient_evidence);
  const std::vector<LayerPlan> none = {plan_layer(Rows(8, 0))};
  EXPECT_EQ(judge_layers(none).findings.at(0).code, "no_rows");
  EXPECT_EQ(judge_layers({}).recommendation, Recommendation::insufficient_evidence);
  EXPECT_THROW(judge_layers(plans, std::vector<Evidence>(1)), Error);
  const std::vector<LayerPlan> mixed = {plan_layer(Rows(8, 1024)),
                                        plan_layer(Rows(8, 1024), with_cost(8, 8))};
  EXPECT_THROW(judge_layers(mixed), Error);  // rows and seconds do not add
}

TEST(JudgeLayer, SameBytesUnderAnyLocale) {
  struct Commas : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const auto text = [] {
    return all_text(judge_layer(plan_layer(Rows(8, 12288), with_cost(5120, 2048))));
  };
  const std::string before = text();
  const std::locale old = std::locale::global(std::locale(std::locale(), new Commas));
  const std::string after = text();
  std::locale::global(old);
  EXPECT_EQ(before, after);
  EXPECT_EQ(before, text());
}

}  // namespace
}  // namespace moesaic::planner
