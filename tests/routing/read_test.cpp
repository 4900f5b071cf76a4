// SPDX-License-Identifier: Apache-2.0
// Finding the format, compression, encodings, and what cannot be read at all.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

const std::string kDump = R"({"logical_count": [[1, 2, 3]]})";

TEST(Read, GzipIsFoundByItsMagicNotByName) {
  EXPECT_EQ(read_text(gzipped(kDump), "x.json.gz").records.at(0).counts, (Counts{1, 2, 3}));
  EXPECT_EQ(read_text(gzipped(kDump), "anything").records.at(0).counts, (Counts{1, 2, 3}));
  const std::string members = gzipped(R"({"logical_count": [[1, )") + gzipped("2, 3]]}");
  EXPECT_EQ(read_text(members, "two.gz").records.at(0).counts, (Counts{1, 2, 3}));
}

TEST(Read, DamagedGzipIsRefused) {
  const std::string whole = gzipped(kDump);
  EXPECT_TRUE(says(refusal(whole.substr(0, whole.size() - 12), "cut.gz"), "truncated"));
  std::string bent = whole;
  bent[12] = static_cast<char>(bent[12] ^ 0x5a);
  EXPECT_FALSE(refusal(bent, "bent.gz").empty());
  EXPECT_TRUE(says(refusal(gzipped(whole), "twice.gz"), "gzip within gzip"));
}

TEST(Read, BomAndSurroundingWhiteSpaceAreAccepted) {
  EXPECT_EQ(read_text("\xEF\xBB\xBF\r\n  " + kDump + "\r\n", "bom.json").records.size(), 1u);
  EXPECT_TRUE(says(refusal(std::string("\xff\xfe{\0", 4), "u16.json"), "UTF-16"));
}

TEST(Read, PicklesAreRefusedInOneLineThatSaysHowToConvert) {
  for (const std::string& text : {std::string("PK\x03\x04junk"), std::string("\x80\x02}q\0", 5),
                                  std::string("\x80\x05.", 3)}) {
    const std::string message = refusal(text, "dump.pt");
    EXPECT_TRUE(says(message, "pickle"));
    EXPECT_TRUE(says(message, "torch.load"));
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Read, EmptyAndJunkAreRefused) {
  EXPECT_TRUE(says(refusal("", "empty.json"), "is empty"));
  EXPECT_TRUE(says(refusal(" \n\t ", "blank.json"), "white space"));
  EXPECT_TRUE(says(refusal("\x01\x02\x03\xff", "junk.json"), "no known routing format"));
  EXPECT_TRUE(says(refusal("hello world", "text"), "no known routing format"));
}

TEST(Read, BadNumberOfExpertsIsRefused) {
  EXPECT_TRUE(says(refusal(kDump, "a.json", with_experts(0)), "expected 1 to 65536"));
  EXPECT_TRUE(says(refusal(kDump, "a.json", with_experts(65537)), "65537"));
}

class ReadFile : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           ("moesaic_read_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return (dir_ / name).string();
  }
  std::filesystem::path dir_;
};

TEST_F(ReadFile, ReadsFromDisk) {
  const std::string path = write("a.json", kDump);
  std::vector<Record> records;
  const auto summary = read_file(path, {}, [&](Record&& r) { records.push_back(std::move(r)); });
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].source, path);
  EXPECT_EQ(summary.source, path);
}

TEST_F(ReadFile, MissingFilesAndDirectoriesAreRefused) {
  const auto ignore = [](Record&&) {};
  const std::string missing = (dir_ / "nope.json").string();
  const std::string message = refusal_of([&] { (void)read_file(missing, {}, ignore); });
  EXPECT_TRUE(message.starts_with(missing + ": cannot be opened"));
  EXPECT_TRUE(
      says(refusal_of([&] { (void)read_file(dir_.string(), {}, ignore); }), "is a directory"));
  EXPECT_TRUE(
      says(refusal_of([&] { (void)read_file("unifrom", {}, ignore); }), "nor is it a SPEC"));
}

TEST_F(ReadFile, ChunkBordersDoNotShow) {
  // Several chunks of 64 KiB, so that numbers and keys straddle their borders.
  std::string text =
      R"({"schema": "moesaic.routing/1", "num_experts": 64, "top_k": 1, "id_space": "logical",
                         "aggregation": "per_step", "records": [)";
  const std::int64_t layers = 3000;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    text += (layer == 0 ? "" : ", ") + std::string("{\"layer\": ") + std::to_string(layer) +
            ", \"counts\": [";
    for (std::int64_t e = 0; e < 64; ++e)
      text += (e == 0 ? "" : ", ") + std::to_string(layer * 64 + e);
    text += "]}";
  }
  text += "]}";
  std::int64_t next = 0;
  const auto summary = read_file(write("big.json", text), {}, [&](Record&& record) {
    ASSERT_EQ(record.layer, next);
    for (std::int64_t e = 0; e < 64; ++e)
      ASSERT_EQ(record.counts[static_cast<std::size_t>(e)], next * 64 + e);
    ++next;
  });
  EXPECT_EQ(summary.records, layers);
}

TEST_F(ReadFile, TruncationIsReportedAfterTheRecordsBeforeIt) {
  const std::string header =
      R"({"schema": "moesaic.routing/1", "num_experts": 1, "top_k": 1, "id_space": "logical",
                                "aggregation": "per_step", "records": [)";
  std::int64_t seen = 0;
  const std::string path =
      write("t.json", header + R"({"layer": 0, "counts": [1]}, {"layer": 1, "cou)");
  EXPECT_TRUE(
      says(refusal_of([&] { (void)read_file(path, {}, [&](Record&&) { ++seen; }); }), "truncated"));
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace moesaic::routing::testing
