// SPDX-License-Identifier: Apache-2.0
// This process as one rank of those that scripts/run_ranks.sh started, and the fixture that skips
// where it did not, or where there are too few GPUs.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "moesaic/device_memory.hpp"
#include "moesaic/expert_parallel.hpp"

namespace moesaic::ep_tests {

struct Ranks {
  int rank = 0, count = 0;
  std::string folder;    ///< Of all rendezvous.
  std::string why_none;  ///< Empty where the tests can run.
};
const Ranks& ranks();

inline constexpr std::size_t kHeapBytes = std::size_t{1} << 30;
/// This rank's GPU.
inline Device device() { return {DeviceKind::cuda, ranks().rank}; }

/// A new group of `members`, numbers of processes in the order of the group's ranks; all members
/// call this alike. The first group of the process is one of all ranks, made before any other.
ExpertParallelGroup make_group(const std::vector<int>& members, double timeout_seconds = 60);
std::vector<int> all_ranks();
/// One group of all ranks, which all tests may use, each with its own plans.
const ExpertParallelGroup& world();
/// Waits on the host until all ranks are here.
void meet();

class OnRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ranks().why_none.empty()) GTEST_SKIP() << ranks().why_none;
    static_cast<void>(world());
    queue = DeviceStream(device());
  }
  [[nodiscard]] Stream stream() const { return queue.get(); }

  DeviceStream queue;
};

}  // namespace moesaic::ep_tests
