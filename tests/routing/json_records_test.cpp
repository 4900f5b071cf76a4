// SPDX-License-Identifier: Apache-2.0
// The moesaic.routing/1 schema: key order, header checks, every field of a record.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

const std::string kHeader =
    R"("schema": "moesaic.routing/1", "num_experts": 3, "top_k": 2, "id_space": "logical", "aggregation": "per_step")";
const std::string kRecords =
    R"("records": [{"layer": 4, "counts": [1, 2, 3], "note": "first"},
                   {"counts": [0, 4, 0], "rank": 1, "step": 7, "layer": 5, "tokens": 3, "invalid_slots": 2}])";

void expect_the_two_records(const ReadResult& r) {
  ASSERT_EQ(r.records.size(), 2u);
  const Record& a = r.records[0];
  EXPECT_EQ(a.layer, 4);
  EXPECT_EQ(a.step, 0);
  EXPECT_EQ(a.rank, -1);
  EXPECT_EQ(a.tokens, -1);
  EXPECT_EQ(a.top_k, 2);
  EXPECT_EQ(a.counts, (Counts{1, 2, 3}));
  EXPECT_EQ(a.label, "first");
  EXPECT_EQ(a.id_space, IdSpace::logical);
  EXPECT_EQ(a.aggregation, Aggregation::per_step);
  const Record& b = r.records[1];
  EXPECT_EQ(b.layer, 5);
  EXPECT_EQ(b.step, 7);
  EXPECT_EQ(b.rank, 1);
  EXPECT_EQ(b.tokens, 3);
  EXPECT_EQ(b.invalid_slots, 2);
  EXPECT_EQ(b.counts, (Counts{0, 4, 0}));
  EXPECT_EQ(b.label, "");
}

TEST(RoutingJson, HeaderFirst) {
  const auto r = read_text("{" + kHeader + ", " + kRecords + "}", "a.json");
  expect_the_two_records(r);
  EXPECT_EQ(r.summary.format, "moesaic.routing/1 JSON");
  EXPECT_EQ(r.summary.top_k, 2);
  EXPECT_EQ(r.summary.records, 2);
}

TEST(RoutingJson, HeaderLastGivesTheSameRecords) {
  expect_the_two_records(read_text("{" + kRecords + ", " + kHeader + "}", "a.json"));
}

TEST(RoutingJson, OptionalHeaderKeysMayBeAbsent) {
  const auto r = read_text(
      R"({"records": [{"layer": 0, "counts": [1, 2]}], "num_experts": 2, "schema": "moesaic.routing/1"})",
      "a.json");
  ASSERT_EQ(r.records.size(), 1u);
  EXPECT_EQ(r.records[0].id_space, IdSpace::unstated);
  EXPECT_EQ(r.records[0].aggregation, Aggregation::unstated);
  EXPECT_EQ(r.records[0].top_k, 0);
}

TEST(RoutingJson, HeldBackRecordsKeepLargeNumbers) {
  const auto r = read_text(
      R"({"records": [{"layer": 70000, "rank": 300, "counts": [9223372036854775807, 0]}],
          "num_experts": 2, "schema": "moesaic.routing/1"})",
      "a.json");
  EXPECT_EQ(r.records[0].counts[0], INT64_MAX);
  EXPECT_EQ(r.records[0].layer, 70000);
  EXPECT_EQ(r.records[0].rank, 300);
}

TEST(RoutingJson, UnknownSchemaVersionIsRefusedByName) {
  const std::string message =
      refusal(R"({"schema": "moesaic.routing/2", "records": []})", "v2.json");
  EXPECT_TRUE(says(message, "moesaic.routing/2"));
  EXPECT_TRUE(says(message, "expected \"moesaic.routing/1\""));
}

TEST(RoutingJson, MissingHeaderKeysAreNamed) {
  EXPECT_TRUE(says(refusal("{" + kRecords + "}", "a.json"), "no \"schema\""));
  EXPECT_TRUE(
      says(refusal(R"({"schema": "moesaic.routing/1", "records": [{"layer": 0, "counts": [1]}]})",
                   "a.json"),
           "no \"num_experts\""));
  EXPECT_TRUE(says(refusal("{" + kHeader + "}", "a.json"), "no \"records\""));
  EXPECT_TRUE(
      says(refusal("{" + kHeader + R"(, "records": []})", "a.json"), "without a single record"));
}

TEST(RoutingJson, LateHeaderIsStillValidated) {
  EXPECT_TRUE(says(
      refusal(
          R"({"records": [{"layer": 0, "counts": [1, 2]}], "schema": "moesaic.routing/1", "num_experts": 3})",
          "a.json"),
      "2 counts, but num_experts is 3"));
  EXPECT_TRUE(says(refusal(R"({"records": [], "id_space": "global"})", "a.json"), "\"global\""));
}

TEST(RoutingJson, WrongLengthNamesTheRecord) {
  const std::string message = refusal(
      "{" + kHeader +
          R"(, "records": [{"layer": 1, "counts": [1,2,3]}, {"layer": 9, "step": 2, "counts": [1]}]})",
      "a.json");
  EXPECT_TRUE(says(message, "records[1] (layer 9, step 2)"));
  EXPECT_TRUE(says(message, "1 counts, but num_experts is 3"));
}

TEST(RoutingJson, BadFieldsAreNamedWithTheirPlace) {
  const auto bad = [](const std::string& record) {
    return refusal("{" + kHeader + ", \"records\": [" + record + "]}", "a.json");
  };
  EXPECT_TRUE(says(bad(R"({"counts": [1, 2, 3]})"), "records[0]: has no \"layer\""));
  EXPECT_TRUE(says(bad(R"({"layer": 1})"), "neither \"counts\" nor \"offsets\""));
  EXPECT_TRUE(says(bad(R"({"layer": 1, "count": [1, 2]})"), "(it has \"count\")"));
  EXPECT_TRUE(says(bad(R"({"layer": 1, "counts": [1, -4, 0]})"), "counts[1] is -4"));
  EXPECT_TRUE(says(bad(R"({"layer": 1, "counts": [[1]]})"), "came a list"));
  EXPECT_TRUE(says(bad(R"({"layer": "one"})"), "expected a whole number, came a string"));
  EXPECT_TRUE(says(bad(R"({"layer": 1.5})"), "1.5"));
  EXPECT_TRUE(says(bad(R"({"layer": 1, "counts": null})"), "came null"));
  EXPECT_TRUE(says(bad(R"({"layer": 1, "rank": -2})"), "-2"));
  EXPECT_TRUE(says(bad("7"), "expected a record object, came a number"));
  EXPECT_TRUE(says(bad(R"({"layer": 1, "counts": [1,2,3], "offsets": [1,2,3]})"), "given twice"));
}

TEST(RoutingJson, UnknownKeysAreSkippedWithAWarning) {
  const auto r = read_text("{" + kHeader + R"(, "made_by": {"a": [1]}, "records": [
      {"layer": 0, "extra": {"counts": [9, [8]]}, "toekns": 5, "counts": [2, 2, 2]}]})",
                           "a.json");
  EXPECT_EQ(r.records[0].counts, (Counts{2, 2, 2}));
  EXPECT_TRUE(says(warning(r, "toekns"), "ignored"));
  EXPECT_TRUE(says(warning(r, "made_by"), "ignored"));
}

TEST(RoutingJson, OffsetsAreAcceptedByName) {
  const auto r = read_text("{" + kHeader + R"(, "records": [{"layer": 0, "offsets": [1, 3, 6]},
                           {"layer": 1, "offsets": [0, 1, 3, 6]}]})",
                           "a.json");
  EXPECT_EQ(r.records[0].counts, (Counts{1, 2, 3}));
  EXPECT_EQ(r.records[1].counts, (Counts{1, 2, 3}));
}

TEST(RoutingJson, CountsThatLookLikeOffsetsAreFlaggedNotGuessed) {
  const std::string text =
      "{" + kHeader + R"(, "records": [{"layer": 0, "tokens": 5, "counts": [1, 4, 10]}]})";
  const auto r = read_text(text, "a.json");
  EXPECT_EQ(r.records[0].counts, (Counts{1, 4, 10}));
  EXPECT_TRUE(says(warning(r, "ambiguous"), "--form"));
  const auto settled = read_text(text, "a.json", with_form(Form::offsets));
  EXPECT_EQ(settled.records[0].counts, (Counts{1, 3, 6}));
  EXPECT_EQ(warning(settled, "ambiguous"), "");
  EXPECT_EQ(warning(read_text(text, "a.json", with_form(Form::counts)), "ambiguous"), "");
}

}  // namespace
}  // namespace moesaic::routing::testing
