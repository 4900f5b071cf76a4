// SPDX-License-Identifier: Apache-2.0
// vLLM's expert-load dumps: physical slots become logical experts where the map is there.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

TEST(VllmJson, TheMapAddsReplicasUp) {
  const auto r = read_text(
      R"({"world_size": 2, "snapshots": [{"step": 7, "window_expert_load": [[1, 2, 3, 4], [4, 3, 2, 1]],
          "latest_expert_load": [[0, 0, 0, 1], [1, 0, 0, 0]], "physical_to_logical_map": [[0, 1, 2, 0], [2, 1, 0, -1]]}],
          "num_logical_experts": 3})",
      "v.json");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].counts, (Counts{5, 2, 3}));
  EXPECT_EQ(r.records[1].counts, (Counts{2, 3, 4}));
  EXPECT_EQ(r.records[1].invalid_slots, 1);
  EXPECT_EQ(r.records[0].step, 7);
  EXPECT_EQ(r.records[0].id_space, IdSpace::logical);
  EXPECT_EQ(r.records[0].aggregation, Aggregation::summed);
  EXPECT_EQ(warning(r, "physical"), "");
}

TEST(VllmJson, WithoutAMapTheIdsArePhysicalAndThatIsSaid) {
  const auto r = read_text(
      R"({"snapshots": [{"latest_expert_load": [[1, 2]]}, {"latest_expert_load": [[3, 4]]}]})",
      "v.json");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[1].step, 1);
  EXPECT_EQ(r.records[1].id_space, IdSpace::physical);
  EXPECT_EQ(r.records[1].aggregation, Aggregation::per_step);
  EXPECT_TRUE(says(warning(r, "physical"), "no placement map"));
}

TEST(VllmJson, MapsThatDoNotFitAreRefused) {
  EXPECT_TRUE(says(
      refusal(
          R"({"snapshots": [{"latest_expert_load": [[1, 2]], "physical_to_logical_map": [[0]]}]})",
          "v.json"),
      "physical_to_logical_map is [1][1], the load is [1][2]"));
  EXPECT_TRUE(says(
      refusal(
          R"({"snapshots": [{"latest_expert_load": [[1]], "physical_to_logical_map": [[0]]}], "num_logical_experts": 5})",
          "v.json"),
      "num_logical_experts is 5"));
  EXPECT_TRUE(says(
      refusal(
          R"({"snapshots": [{"latest_expert_load": [[1]], "physical_to_logical_map": [[9999999]]}]})",
          "v.json"),
      "no expert of 0 to"));
  EXPECT_TRUE(
      says(refusal(R"({"snapshots": [{"step": 1}]})", "v.json"), "snapshots[0]: has neither"));
  EXPECT_TRUE(
      says(refusal(R"({"snapshots": [{"latest_expert_load": [[1, -2147483648]]}]})", "v.json"),
           "-2147483648"));
}

}  // namespace
}  // namespace moesaic::routing::testing
