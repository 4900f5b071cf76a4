// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM expert statistics.
#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

TEST(Safetensors, CountsByIterationAndLayer) {
  const std::string header =
      R"({"__metadata__": {"a": "b"}, "101_3": {"dtype": "I64", "shape": [2], "data_offsets": [8, 24]},
          "100_4": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}})";
  const std::string data =
      bytes_of(std::vector<std::int32_t>{1, 2}) + bytes_of(std::vector<std::int64_t>{3, 4});
  const auto r = read_text(make_safetensors(header, data), "dir/rank3.safetensors");
  ASSERT_EQ(r.records.size(), 2u);
  EXPECT_EQ(r.records[0].step, 100);
  EXPECT_EQ(r.records[0].layer, 4);
  EXPECT_EQ(r.records[0].rank, 3);
  EXPECT_EQ(r.records[0].counts, (Counts{1, 2}));
  EXPECT_EQ(r.records[1].counts, (Counts{3, 4}));
  EXPECT_EQ(r.records[1].aggregation, Aggregation::per_step);
  EXPECT_EQ(read_text(make_safetensors(header, data), "other").records[0].rank, -1);
}

TEST(Safetensors, RawFilesHoldIds) {
  const std::string file =
      make_safetensors(R"({"5_0": {"dtype": "I32", "shape": [2, 2], "data_offsets": [0, 16]}})",
                       bytes_of(std::vector<std::int32_t>{0, 1, 1, -1}));
  EXPECT_TRUE(says(refusal(file, "rank0_raw.safetensors"), "--experts"));
  const auto r = read_text(file, "rank0_raw.safetensors", with_experts(2));
  EXPECT_EQ(r.records[0].counts, (Counts{1, 2}));
  EXPECT_EQ(r.records[0].invalid_slots, 1);
  EXPECT_EQ(r.records[0].rank, 0);
  EXPECT_TRUE(says(refusal(file, "rank0_raw.safetensors", with_experts(1)), "expert id 1"));
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  const auto bad = [](const std::string& header, const std::string& data = std::string(16, '\0')) {
    return refusal(make_safetensors(header, data), "t.safetensors", with_experts(4));
  };
  EXPECT_TRUE(
      says(bad(R"({"model.weight": {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]}})"),
           "model.weight"));
  EXPECT_TRUE(
      says(bad(R"({"1_2": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}})"), "BF16"));
  EXPECT_TRUE(says(bad(R"({"1_2": {"dtype": "I32", "shape": [4], "data_offsets": [0, 12]}})"),
                   "do not fit shape [4]"));
  EXPECT_TRUE(says(bad(R"({"1_2": {"dtype": "I32", "shape": [4], "data_offsets": [4, 20]}})"),
                   "truncated"));
  EXPECT_TRUE(says(
      bad(R"({"1_2": {"dtype": "I32", "shape": [4294967296, 4294967296], "data_offsets": [0, 16]}})"),
      "past 2^63"));
  EXPECT_TRUE(says(bad(R"({"1_2": {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]},
                           "1_3": {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]}})"),
                   "do not fit"));
  EXPECT_TRUE(says(bad(R"({"1_2": {"dtype": "I32", "shape": {}}})"), "an object came"));
  EXPECT_TRUE(says(bad(R"({"1_2": )"), "header"));
  EXPECT_TRUE(says(bad("{}"), "without a single record"));
  EXPECT_TRUE(says(refusal(little_endian(std::uint64_t{1} << 40, 8) + "{}", "huge.safetensors"),
                   "header of 1099511627776 bytes"));
  EXPECT_TRUE(says(refusal("abc", "short.safetensors"), "truncated"));
}

}  // namespace
}  // namespace moesaic::routing::testing
