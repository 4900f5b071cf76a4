// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "moesaic/expert_parallel_group.hpp"
#include "support/expect_error.hpp"

namespace moesaic {
namespace {

using std::chrono::milliseconds;
using testing::expect_error;

class FileRendezvous : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "rendezvous_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string folder;
};

TEST_F(FileRendezvous, AValueReachesWhoWaitsForIt) {
  const std::string value("a\0b\n", 4);
  std::string got;
  std::thread waiting(
      [&] { got = file_rendezvous(folder)->get("member/1", milliseconds(20'000)); });
  std::this_thread::sleep_for(milliseconds(20));
  file_rendezvous(folder)->set("member/1", value);
  waiting.join();
  EXPECT_EQ(got, value);
  EXPECT_EQ(file_rendezvous(folder)->get("member/1", milliseconds(0)), value);
}

TEST_F(FileRendezvous, NobodyComes) {
  expect_error(ErrorCode::device_failure, {"rendezvous in " + folder, "'member/2'", "30 ms"},
               [&] { file_rendezvous(folder)->get("member/2", milliseconds(30)); });
}

TEST_F(FileRendezvous, AKeyIsSetOnce) {
  file_rendezvous(folder)->set("key", "one");
  expect_error(ErrorCode::invalid_argument, {folder, "folder of its own"},
               [&] { file_rendezvous(folder)->set("key", "two"); });
  EXPECT_EQ(file_rendezvous(folder)->get("key", milliseconds(0)), "one");
}

TEST_F(FileRendezvous, MakesItsFolderAndRefusesAFile) {
  file_rendezvous(folder + "/deep/down")->set("key", "");
  EXPECT_EQ(file_rendezvous(folder + "/deep/down")->get("key", milliseconds(0)), "");
  std::ofstream(folder + "/file") << "text";
  expect_error(ErrorCode::invalid_argument, {"folder", "/file'"},
               [&] { file_rendezvous(folder + "/file"); });
}

}  // namespace
}  // namespace moesaic
