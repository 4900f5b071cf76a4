// SPDX-License-Identifier: Apache-2.0
// Router hook logs, JSON lines.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

std::string route(int layer, int a, int b) {
  return "{\"type\": \"route\", \"req_id\": \"r\", \"layer\": " + std::to_string(layer) +
         ", \"topk_ids\": [" + std::to_string(a) + ", " + std::to_string(b) +
         "], \"topk_weights\": [0.5, 0.5]}\n";
}

TEST(HookLog, CountsByLayer) {
  const std::string text = "{\"type\": \"meta\", \"top_k\": 2, \"layers_logged\": [0, 3]}\n" +
                           route(0, 0, 1) + route(3, 2, -1) + "\r\n" + route(0, 0, 3);
  const auto r = read_text(text, "log.txt", with_experts(4));
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].counts, (Counts{2, 1, 0, 1}));
  EXPECT_EQ(r.records[0].tokens, 2);
  EXPECT_EQ(r.records[0].top_k, 2);
  EXPECT_EQ(r.records[1].layer, 3);
  EXPECT_EQ(r.records[1].counts, (Counts{0, 0, 1, 0}));
  EXPECT_EQ(r.records[1].invalid_slots, 1);
  EXPECT_EQ(r.summary.form, Form::ids);
}

TEST(HookLog, AMetaLineMaySayTheNumberOfExperts) {
  const std::string meta = "{\"type\": \"meta\", \"top_k\": 2, \"num_experts\": 4}\n";
  const std::string other = "{\"type\": \"meta\", \"num_experts\": 5}\n";
  const auto r = read_text(meta + route(0, 0, 1) + meta, "log.jsonl");
  EXPECT_EQ(r.records.at(0).counts, (Counts{1, 1, 0, 0}));
  EXPECT_EQ(read_text(meta + route(0, 0, 1), "log.jsonl", with_experts(4)).records.size(), 1u);
  EXPECT_TRUE(says(refusal(meta + route(0, 0, 4), "log.jsonl"), "line 2, layer 0, slot 1"));
  EXPECT_TRUE(says(refusal(meta + route(0, 0, 1), "log.jsonl", with_experts(8)),
                   "line 1: num_experts is 4, expected 8 as --experts says"));
  EXPECT_TRUE(says(refusal(meta + route(0, 0, 1) + other, "log.jsonl"),
                   "line 3: num_experts is 5, expected 4 as in the meta line before"));
  EXPECT_TRUE(says(refusal("{\"type\": \"meta\", \"num_experts\": 0}\n", "log.jsonl"),
                   "line 1: num_experts is 0, expected 1 to"));
  EXPECT_TRUE(says(refusal(route(0, 0, 1) + meta, "log.jsonl"), "line 1: ids do not say"));
}

TEST(HookLog, DummyRowsAreFound) {
  std::string text;
  for (int i = 0; i < 70; ++i) text += route(0, 0, 1);
  for (int i = 0; i < 10; ++i) text += route(0, i % 4, (i + 1) % 4);
  const auto r = read_text(text, "log.jsonl", with_experts(4));
  EXPECT_TRUE(says(warning(r, "identical rows"), "71 of 80 token rows of layer 0"));
}

TEST(HookLog, RefusalsNameTheLine) {
  EXPECT_TRUE(says(refusal(route(0, 0, 1), "log.jsonl"), "--experts N"));
  EXPECT_TRUE(says(refusal(route(0, 0, 1) + route(0, 0, 4), "log.jsonl", with_experts(4)),
                   "line 2, layer 0, slot 1: expert id 4"));
  EXPECT_TRUE(
      says(refusal(route(0, 0, 1) + "{\"type\": \"route\", \"layer\": 0, \"topk_ids\": [1]}\n",
                   "log.jsonl", with_experts(4)),
           "line 2: layer 0 has 1 ids, expected 2"));
  EXPECT_TRUE(says(refusal(route(0, 0, 1) + "{\"type\": \"route\", \"topk_ids\": [1]}\n",
                           "log.jsonl", with_experts(4)),
                   "line 2: a route line without \"layer\""));
  EXPECT_TRUE(says(refusal(route(0, 0, 1) + "{\"type\": \"route\", ", "log.jsonl", with_experts(4)),
                   "line 2: truncated"));
}

}  // namespace
}  // namespace moesaic::routing::testing
