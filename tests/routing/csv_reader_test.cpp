// SPDX-License-Identifier: Apache-2.0
// Long CSV.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

TEST(Csv, CrlfAndEveryColumnOrder) {
  const auto r = read_text("layer,expert,count\r\n3,0,17\r\n3,1,0\r\n3,2,5\r\n4,0,1\r\n", "c.csv");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].counts, (Counts{17, 0, 5}));
  EXPECT_EQ(r.records[1].counts, (Counts{1, 0, 0}));
  EXPECT_EQ(r.records[1].layer, 4);
  const auto other = read_text(
      "\xEF\xBB\xBF\"Count\", step ,Expert_ID,rank,layer\n7.0,2,1,0,9\n\n3,1,0,0,9", "noext");
  ASSERT_EQ(other.records.size(), 2u);
  EXPECT_EQ(other.records[0].step, 1);
  EXPECT_EQ(other.records[1].counts, (Counts{0, 7}));
  EXPECT_EQ(other.records[1].rank, 0);
}

TEST(Csv, ExpertsGivenPadAndLimit) {
  EXPECT_EQ(read_text("layer,expert,count\n0,1,5\n", "c.csv", with_experts(4)).records[0].counts,
            (Counts{0, 5, 0, 0}));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,4,5\n", "c.csv", with_experts(4)),
                   "line 2: expert id 4"));
  EXPECT_TRUE(
      says(refusal("layer,expert,count\n0,1000000000,5\n", "c.csv"), "expert id 1000000000"));
}

TEST(Csv, RefusalsNameLineAndColumn) {
  EXPECT_TRUE(says(refusal("expert,count\n0,1\n", "two.csv"), "without a \"layer\" column"));
  EXPECT_TRUE(says(refusal("layer,expert\n0,1\n", "c.csv"), "\"count\" column"));
  EXPECT_TRUE(says(refusal("0,0,17\n", "c.csv"), "\"layer\" column"));
  EXPECT_TRUE(says(refusal("layer,layer_id,expert,count\n0,0,0,1\n", "c.csv"), "comes twice"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0,1\n0,0,2\n", "c.csv"),
                   "line 3: layer 0, step 0, expert 0 comes twice"));
  const std::string late = "layer,expert,count\n0,0,1\n1,0,1\n\n0,1,4\n1,0,2\n";
  EXPECT_TRUE(says(refusal(late, "c.csv"), "line 6: layer 1, step 0, expert 0 comes twice"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0,-1\n", "c.csv"), "line 2: count is -1"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0,1.5\n", "c.csv"), "1.5"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0,nan\n", "c.csv"), "NaN"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0,9223372036854775808\n", "c.csv"), "past 2^63"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,x,1\n", "c.csv"), "line 2: expert is \"x\""));
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0\n", "c.csv"), "2 fields, expected 3"));
  EXPECT_TRUE(says(refusal("layer,expert,count\n", "c.csv"), "without a single record"));
}

TEST(Csv, OtherSeparatorsAreNamed) {
  EXPECT_TRUE(says(refusal("layer;expert;count\n0;0;1\n", "c.csv"), "separated by semicolons"));
  EXPECT_TRUE(says(refusal("layer;expert;count\n0;0;1\n", "noext"), "separated by semicolons"));
  EXPECT_TRUE(says(refusal("layer\texpert\tcount\n0\t0\t1\n", "c.csv"), "separated by tabs"));
}

TEST(Csv, TheNumberOfExpertsIsSaidWhereItIsAGuess) {
  const std::string text = "layer,expert,count\n0,0,3\n0,5,1\n";
  const auto guessed = read_text(text, "c.csv");
  EXPECT_EQ(guessed.records[0].counts.size(), 6u);
  EXPECT_TRUE(says(warning(guessed, "largest id"), "--experts N"));
  const auto given = read_text(text, "c.csv", with_experts(8));
  EXPECT_EQ(given.records[0].counts.size(), 8u);
  EXPECT_TRUE(says(warning(given, "largest id"), "experts 6 to 7 of --experts 8"));
  EXPECT_EQ(warning(read_text("layer,expert,count\n0,0,3\n0,1,1\n", "c.csv"), "largest id"), "");
}

TEST(Csv, OnlyACountMayHaveWrapped) {
  EXPECT_TRUE(says(refusal("layer,expert,count\n0,0,-1\n", "c.csv"), "wrapped"));
  EXPECT_FALSE(says(refusal("layer,expert,count\n-1,0,1\n", "c.csv"), "wrapped"));
}

TEST(Csv, UnknownColumnsAreIgnoredWithAWarning) {
  const auto r = read_text("layer,expert,count,colour\n0,0,1,red\n", "c.csv");
  EXPECT_TRUE(says(warning(r, "colour"), "ignored"));
}

}  // namespace
}  // namespace moesaic::routing::testing
