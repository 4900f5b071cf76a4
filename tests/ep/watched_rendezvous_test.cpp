// SPDX-License-Identifier: Apache-2.0
// What a failed rank leaves to the others; needs no GPU.

#include "ep/watched_rendezvous.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "support/expect_error.hpp"

namespace moesaic::ep_tests {
namespace {

class Watched : public ::testing::Test {
 protected:
  Watched()
      : folder_(std::string(::testing::TempDir()) + "moesaic_watched_" + std::to_string(getpid())),
        note(folder_) {
    std::filesystem::create_directories(folder_);
  }
  ~Watched() override { std::filesystem::remove_all(folder_); }
  /// As each rank makes one.
  [[nodiscard]] std::shared_ptr<Rendezvous> join() const {
    return std::make_shared<WatchedRendezvous>(file_rendezvous(folder_ + "/keys"), note);
  }

 private:
  std::string folder_;

 protected:
  FailureNote note;
};

TEST_F(Watched, ValuesArrive) {
  join()->set("a key", "its value");
  EXPECT_EQ(join()->get("a key", std::chrono::seconds(5)), "its value");
}

TEST_F(Watched, AFailureElsewhereEndsTheWait) {
  const auto begin = std::chrono::steady_clock::now();
  note.leave("rank 1 has failed: Suite.Case");
  note.leave("rank 0 has failed: because of it");
  testing::expect_error(ErrorCode::device_failure, {"nobody sets 'never'", "rank 1", "Suite.Case"},
                        [&] { join()->get("never", std::chrono::seconds(600)); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(Watched, TheTimeOutStands) {
  const auto begin = std::chrono::steady_clock::now();
  testing::expect_error(ErrorCode::device_failure, {"rendezvous in", "'never'"},
                        [&] { join()->get("never", std::chrono::milliseconds(250)); });
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, std::chrono::milliseconds(250));
  EXPECT_LT(waited, std::chrono::seconds(5));
}

}  // namespace
}  // namespace moesaic::ep_tests
