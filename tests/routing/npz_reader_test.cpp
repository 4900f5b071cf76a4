// SPDX-License-Identifier: Apache-2.0
// ZIP archives: Megatron's dump, one array, and archives that are something else.
#include <iomanip>
#include <sstream>

#include "routing_test_util.hpp"

namespace moesaic::routing::testing {
namespace {

std::string utf32(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::string{c, '\0', '\0', '\0'};
  return out;
}

std::vector<std::pair<std::string, std::string>> megatron(
    const std::string& version = "mcore_ep_load_dump_v1") {
  return {
      {"dump_version.npy", make_npy("<U" + std::to_string(version.size()), "()", utf32(version))},
      {"loads.npy", make_npy("<i4", "(2, 3, 2)",
                             std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0})},
      {"layer_numbers.npy", make_npy("<i8", "(2,)", std::vector<std::int64_t>{3, 4})},
      {"forward_counts.npy", make_npy("<i8", "(2,)", std::vector<std::int64_t>{3, 2})},
      {"ep_rank.npy", make_npy("<i8", "()", std::vector<std::int64_t>{5})}};
}

TEST(MegatronNpz, ForwardCountsCutThePaddingOff) {
  for (const bool deflate_them : {false, true}) {
    const auto r = read_text(make_zip(megatron(), deflate_them), "load.npz");
    ASSERT_EQ(r.records.size(), 5u);
    EXPECT_EQ(r.records[4].layer, 4);
    EXPECT_EQ(r.records[4].step, 1);
    EXPECT_EQ(r.records[4].rank, 5);
    EXPECT_EQ(r.records[4].counts, (Counts{9, 10}));
    EXPECT_EQ(r.records[4].aggregation, Aggregation::per_step);
    EXPECT_EQ(r.records[4].id_space, IdSpace::physical);
    EXPECT_TRUE(says(warning(r, "physical"), "no placement map"));
  }
}

TEST(MegatronNpz, ContradictionsAreRefused) {
  EXPECT_TRUE(says(refusal(make_zip(megatron("v9"), false), "load.npz"), "dump_version is \"v9\""));
  auto members = megatron();
  members[3].second = make_npy("<i8", "(2,)", std::vector<std::int64_t>{4, 2});
  EXPECT_TRUE(says(refusal(make_zip(members, false), "load.npz"), "forward_counts holds 4"));
  members.erase(members.begin() + 3);
  EXPECT_TRUE(says(refusal(make_zip(members, false), "load.npz"), "no forward_counts"));
  members = megatron();
  members[2].second = make_npy("<i8", "(1,)", std::vector<std::int64_t>{3});
  EXPECT_TRUE(says(refusal(make_zip(members, false), "load.npz"), "layer_numbers has 1 entries"));
  members = megatron();
  members[1].second =
      make_npy("<i4", "(2, 3, 2)", std::vector<std::int32_t>{1, 2, -7, 4, 5, 6, 7, 8, 9, 10, 0, 0});
  EXPECT_TRUE(says(refusal(make_zip(members, false), "load.npz"), "-7"));
}

TEST(Npz, OneArrayIsReadAsIds) {
  const auto ids = make_npy("|u1", "(2, 1, 2)", std::vector<std::uint8_t>{0, 3, 2, 1});
  const auto r = read_text(make_zip({{"arr_0.npy", ids}}, true), "one.npz", with_experts(4));
  EXPECT_EQ(r.records.at(0).counts, (Counts{1, 1, 1, 1}));
}

TEST(Npz, OtherArchivesAreRefused) {
  EXPECT_TRUE(
      says(refusal(make_zip({{"a.txt", "x"}, {"b.txt", "y"}}, false), "x.zip"), "a.txt, b.txt"));
  EXPECT_TRUE(says(refusal(make_zip({{"archive/data.pkl", "x"}}, false), "x.zip"), "pickle"));
  EXPECT_TRUE(says(refusal("PK\x03\x04junk", "x.npz"), "damaged or truncated ZIP"));
  const std::string whole = make_zip(megatron(), true);
  EXPECT_TRUE(
      says(refusal(whole.substr(0, whole.size() - 30), "x.npz"), "damaged or truncated ZIP"));
}

TEST(Npz, AMemberThatInflatesPastItsStatedSizeIsRefused) {
  const auto ids = make_npy("|u1", "(2, 1, 2)", std::vector<std::uint8_t>{0, 3, 2, 1});
  std::string zip = make_zip({{"arr_0.npy", ids}}, true);
  const std::size_t central = zip.find("PK\x01\x02");
  zip[central + 24] = 50;  // the uncompressed size of the directory entry
  EXPECT_TRUE(
      says(refusal(zip, "bomb.npz", with_experts(4)), "more bytes than its directory entry"));
}

std::string crc_text(const std::string& data) {
  std::ostringstream out;
  out << std::hex << std::setfill('0') << std::setw(8)
      << crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  return out.str();
}

TEST(Npz, AMemberWhoseCrcDiffersIsRefused) {
  const auto sound = make_npy("|u1", "(2, 1, 2)", std::vector<std::uint8_t>{0, 3, 2, 1});
  const auto damaged = make_npy("|u1", "(2, 1, 2)", std::vector<std::uint8_t>{0, 3, 2, 2});
  for (const bool deflate_them : {false, true}) {
    const std::string intact = make_zip({{"arr_0.npy", sound}}, deflate_them);
    std::string zip = make_zip({{"arr_0.npy", damaged}}, deflate_them);
    constexpr std::size_t kCrcAt = 16;  // in an entry of the directory
    zip.replace(zip.find("PK\x01\x02") + kCrcAt, 4, intact, intact.find("PK\x01\x02") + kCrcAt, 4);
    EXPECT_TRUE(says(refusal(zip, "flip.npz", with_experts(4)),
                     "flip.npz: arr_0.npy: damaged: its CRC-32 is " + crc_text(damaged) +
                         ", expected " + crc_text(sound)));
  }
}

TEST(Npz, EveryMemberThatIsReadIsChecked) {
  for (const std::string name : {"dump_version", "loads", "layer_numbers", "forward_counts"}) {
    std::string zip = make_zip(megatron(), false);
    const std::size_t member = zip.find(name + ".npy");
    zip[zip.find("  \n", member)] ^= 1;  // white space of the header
    EXPECT_TRUE(says(refusal(zip, "load.npz"), "load.npz: " + name + ".npy: damaged: its CRC-32"));
  }
}

TEST(Npz, AStoredMemberOfAnotherSizeIsRefused) {
  const auto ids = make_npy("|u1", "(2, 1, 2)", std::vector<std::uint8_t>{0, 3, 2, 1});
  std::string zip = make_zip({{"arr_0.npy", ids}}, false);
  zip[zip.find("PK\x01\x02") + 24] ^= 1;  // the uncompressed size of the directory entry
  EXPECT_TRUE(says(refusal(zip, "size.npz", with_experts(4)), "arr_0.npy: damaged: "));
}

}  // namespace
}  // namespace moesaic::routing::testing
