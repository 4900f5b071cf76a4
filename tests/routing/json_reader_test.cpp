// SPDX-License-Identifier: Apache-2.0
// JSON documents that are not ours: SGLang logical_count, EPLB weights, and what is no routing at
// all.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

TEST(SglangJson, TwoDimensionsAreLayersSummedOverSteps) {
  const auto r =
      read_text(R"({"note": "x", "logical_count": [[0.0, 0.0, 0.0], [123.0, 2, 3e0]]})", "d.json");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_TRUE(r.records[0].dense());
  EXPECT_EQ(r.records[1].counts, (Counts{123, 2, 3}));
  EXPECT_EQ(r.records[1].layer, 1);
  EXPECT_EQ(r.records[1].source, "d.json");
  EXPECT_EQ(r.records[1].aggregation, Aggregation::summed);
  EXPECT_EQ(r.summary.format, "SGLang logical_count JSON");
  EXPECT_EQ(r.summary.layers, 2);
  EXPECT_EQ(r.summary.experts, 3);
  EXPECT_TRUE(says(warning(r, "average"), "summed"));
  EXPECT_TRUE(says(warning(r, "dense"), "layers: 0 (1 of 2)"));
}

TEST(SglangJson, ThreeDimensionsAreStepsAndZeroStepsAreSkipped) {
  const auto r =
      read_text(R"({"logical_count": [[[1,2],[3,0]], [[0,0],[0,0]], [[0,0],[2,1]]]})", "d.json");
  ASSERT_EQ(r.records.size(), 4u);
  EXPECT_EQ(r.records[2].step, 2);
  EXPECT_EQ(r.records[2].counts, (Counts{0, 0}));
  EXPECT_EQ(r.records[3].counts, (Counts{2, 1}));
  EXPECT_EQ(r.records[3].aggregation, Aggregation::per_step);
  EXPECT_TRUE(says(warning(r, "all-zero steps"), "skipped: 1"));
  EXPECT_TRUE(
      says(refusal(R"({"logical_count": [[[0,0]], [[0,0]]]})", "z.json"), "every step is zero"));
}

TEST(SglangJson, OddCountsAreRefusedWithTheirValueAndPlace) {
  EXPECT_TRUE(
      says(refusal(R"({"logical_count": [[1, -2, 3]]})", "neg.json"), "logical_count[0][1] is -2"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1, -2.0]]})", "neg.json"), "-2.0"));
  EXPECT_TRUE(
      says(refusal(R"({"logical_count": [[1, 2], [1.5, 2]]})", "frac.json"), "[1][0] is 1.5"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1e30, 2]]})", "huge.json"), "1e30, past 2^63"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[9223372036854775808]]})", "huge.json"),
                   "9223372036854775808, past 2^63"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1e400]]})", "huge.json"), "1e400 is too large"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[true]]})", "w.json"), "came true"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [["7"]]})", "w.json"), "came a string"));
}

TEST(SglangJson, TheLargestCountIsReadAndAnOverflowingSumRefused) {
  const auto r = read_text(R"({"logical_count": [[9223372036854775807, 0]]})", "max.json");
  EXPECT_EQ(r.records[0].rows(), INT64_MAX);
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[9223372036854775807, 1]]})", "sum.json"), "sum"));
}

TEST(SglangJson, NanAndInfinityAreNamed) {
  for (const char* word : {"NaN", "Infinity", "-Infinity", "nan"}) {
    const std::string text = std::string(R"({"logical_count": [[)") + word + ", 2]]}";
    EXPECT_TRUE(says(refusal(text, "nan.json"), "NaN or Infinity")) << word;
  }
}

TEST(SglangJson, UnequalRowsAreRefused) {
  EXPECT_TRUE(
      says(refusal(R"({"logical_count": [[1, 2, 3], [1, 2]]})", "rag.json"), "unequal lengths"));
  EXPECT_TRUE(
      says(refusal(R"({"logical_count": [[[1]], [[1], [2]]]})", "rag.json"), "unequal lengths"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1], [[1]]]})", "rag.json"), "nested deeper"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [1, 2]})", "flat.json"), "list was expected"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": []})", "none.json"), "empty list"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": {"0": [1]}})", "obj.json"), "came an object"));
}

TEST(EplbJson, WeightsAreCountsByLayer) {
  const auto r = read_text(R"({"source": {"a": [1]}, "weight": [[90, 132], [20, 107]]})", "w.json");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[1].counts, (Counts{20, 107}));
  EXPECT_EQ(r.summary.form, Form::weights);
}

TEST(Json, TruncationNamesFileAndByte) {
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1, 2, 3)", "trunc.json"), "ends at byte 27"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1, 2]])", "trunc.json"), "truncated"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1, 2]], "a": tru)", "trunc.json"), "truncated"));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1, 2]], "a": "tr)", "trunc.json"), "truncated"));
}

TEST(Json, WhatIsWholeAndWrongAtTheEndIsNoTruncation) {
  for (const std::string tail : {"}", " }", "\n}\n", "]", " x", " {}"}) {
    const std::string text = R"({"logical_count": [[1, 2]]})" + tail;
    const std::size_t byte = text.find_first_not_of(" \n", text.size() - tail.size()) + 1;
    EXPECT_TRUE(
        says(refusal(text, "tail.json"), "the document ends before byte " + std::to_string(byte)));
  }
  const std::string comma = refusal(R"({"logical_count": [[1, 2]],})", "comma.json");
  EXPECT_TRUE(says(comma, "broken JSON at byte 28"));
  EXPECT_TRUE(says(comma, "expected string literal"));
}

TEST(Json, APlacementIsNotCounts) {
  EXPECT_TRUE(says(refusal(R"({"physical_to_logical_map": [[0, 1]]})", "p.json"), "placement"));
  EXPECT_TRUE(says(refusal(R"({"moe_layer_count": 1, "layer_list": []})", "p.json"), "placement"));
}

TEST(Json, UnknownDocumentsListTheirKeys) {
  const std::string message = refusal(R"({"tasks": {}, "alpha": 3})", "u.json");
  EXPECT_TRUE(says(message, "\"tasks\", \"alpha\""));
  EXPECT_TRUE(says(message, "logical_count"));
  EXPECT_TRUE(says(refusal("[[1, 2]]", "list.json"), "bare list"));
  EXPECT_TRUE(says(refusal("{}", "none.json"), "keys are none"));
  EXPECT_TRUE(says(refusal(R"({"weight": [[1]], "logical_count": [[1]]})", "two.json"), "both"));
}

TEST(Json, DeepNestingIsRefused) {
  const std::string deep = R"({"x": )" + std::string(100000, '[');
  EXPECT_TRUE(says(refusal(deep, "deep.json"), "deeper than 64"));
}

TEST(Json, ALayerThatContradictsTheNumberOfExpertsIsRefused) {
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[1, 2, 3]]})", "e.json", with_experts(4)),
                   "--experts says 4"));
}

TEST(Json, TheFormHintReadsVectorsAsOffsets) {
  const std::string text = R"({"logical_count": [[1, 5, 8, 10]]})";
  EXPECT_EQ(read_text(text, "o.json", with_form(Form::offsets)).records[0].counts,
            (Counts{1, 4, 3, 2}));
  ReadOptions options = with_form(Form::offsets);
  options.num_experts = 3;
  EXPECT_EQ(read_text(R"({"logical_count": [[0, 5, 8, 10]]})", "o.json", options).records[0].counts,
            (Counts{5, 3, 2}));
  EXPECT_TRUE(says(refusal(R"({"logical_count": [[3, 2]]})", "o.json", with_form(Form::offsets)),
                   "never decrease"));
  EXPECT_TRUE(says(refusal(text, "o.json", with_form(Form::ids)), "form ids was asked for"));
}

TEST(Json, AnEndWithoutAWordIsNotQuoted) {
  const std::string message = refusal("{\"logical_count\": [[1, ", "cut.json");
  EXPECT_TRUE(says(message, "truncated"));
  EXPECT_FALSE(says(message, "''"));
}

}  // namespace
}  // namespace moesaic::routing::testing
