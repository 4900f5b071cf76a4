// SPDX-License-Identifier: Apache-2.0
// Warnings that need a whole source, and the layer and step filters.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

ReadResult read_records(const std::string& records, const ReadOptions& options = {}) {
  return read_text(
      R"({"schema": "moesaic.routing/1", "num_experts": 2, "top_k": 2, "id_space": "logical",
                      "aggregation": "per_step", "records": [)" +
          records + "]}",
      "w.json", options);
}

TEST(Warnings, EqualLayersGiveNone) {
  const auto r = read_records(
      R"({"layer": 0, "tokens": 2, "counts": [1, 3]}, {"layer": 1, "tokens": 2, "counts": [4, 0]})");
  EXPECT_TRUE(r.summary.warnings.empty()) << r.summary.warnings.front();
}

TEST(Warnings, UnequalLayerSumsGiveThePercent) {
  const auto r = read_records(
      R"({"layer": 0, "counts": [500, 500]}, {"layer": 1, "counts": [0, 0]}, {"layer": 2, "counts": [998, 0]})");
  const std::string text = warning(r, "unequal layer sums");
  EXPECT_TRUE(says(text, "0.2%"));
  EXPECT_TRUE(says(text, "several models' layers"));
  EXPECT_TRUE(says(warning(r, "dense"), "layers: 1 (1 of 3)"));
}

TEST(Warnings, StepsMayDiffer) {
  const auto r = read_records(
      R"({"layer": 0, "step": 0, "counts": [2, 2]}, {"layer": 0, "step": 1, "counts": [4, 2]})");
  EXPECT_EQ(warning(r, "unequal"), "");
}

TEST(Warnings, PaddingSlotsCountTowardsTheSum) {
  const auto r = read_records(
      R"({"layer": 0, "tokens": 2, "counts": [1, 3]}, {"layer": 1, "tokens": 2, "counts": [1, 0], "invalid_slots": 3})");
  EXPECT_TRUE(r.summary.warnings.empty()) << r.summary.warnings.front();
}

TEST(Warnings, IndivisibleSumsAndTokens) {
  const auto r = read_records(
      R"({"layer": 0, "counts": [2, 1]}, {"layer": 1, "tokens": 9, "counts": [3, 0]})");
  EXPECT_TRUE(says(warning(r, "not divisible by top_k 2"), "2, first layer 0, step 0 has 3"));
  EXPECT_TRUE(says(warning(r, "not tokens x top_k"), "expected 9 tokens x top-2 = 18"));
}

TEST(Warnings, RepeatedRecords) {
  const auto r = read_records(R"({"layer": 3, "counts": [2, 2]}, {"layer": 3, "counts": [2, 2]})");
  EXPECT_TRUE(says(warning(r, "came before"), "1, first layer 3, step 0"));
}

TEST(Warnings, ConsecutiveDenseLayersAreWrittenAsARange) {
  const auto r = read_records(
      R"({"layer": 0, "counts": [0, 0]}, {"layer": 1, "counts": [0, 0]}, {"layer": 2, "counts": [2, 2]}, {"layer": 5, "counts": [0, 0]})");
  EXPECT_TRUE(says(warning(r, "dense"), "layers: 0-1, 5 (3 of 4)"));
}

TEST(Filters, LayerAndStep) {
  const std::string records =
      R"({"layer": 0, "step": 0, "counts": [2, 2]}, {"layer": 1, "step": 0, "counts": [4, 0]}, {"layer": 1, "step": 1, "counts": [1, 3]})";
  ReadOptions options;
  options.layer = 1;
  EXPECT_EQ(read_records(records, options).records.size(), 2u);
  options.step = 1;
  const auto r = read_records(records, options);
  ASSERT_EQ(r.records.size(), 1u);
  EXPECT_EQ(r.records[0].counts, (Counts{1, 3}));
  EXPECT_EQ(r.summary.records, 1);
  EXPECT_EQ(r.summary.layers, 2);
  options.layer = 99;
  const std::string message = refusal_of([&] { (void)read_records(records, options); });
  EXPECT_TRUE(
      says(message, "no record of layer 99, step 1; the file has layers 0 to 1 and steps 0 to 1"));
}

TEST(Collector, UnequalSumsOfOneLayerAreNotBlamedOnTwo) {
  const auto r = read_text(
      R"({"schema": "moesaic.routing/1", "num_experts": 2, "records": [
          {"layer": 0, "counts": [1, 2]}, {"layer": 0, "counts": [3, 4]}]})",
      "a.json");
  EXPECT_TRUE(says(warning(r, "unequal layer sums"),
                   "step 0: layer 0 comes more than once, with 3 to 7 rows"));
}

}  // namespace
}  // namespace moesaic::routing::testing
