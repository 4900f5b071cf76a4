// SPDX-License-Identifier: Apache-2.0
// This process as one rank of those that scripts/run_ranks.sh started, and the fixture that skips
// where it did not, or where there are too few GPUs.
//
// While a case runs, the GPU of another rank is current: every call of moesaic has to find its own.
// What the tests ask of CUDA themselves they ask inside an OwnDevice.
#pragma once

#include <cuda_runtime_api.h>
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
/// What a rank waits for another inside a case. Short: one that fails is to end the others soon.
inline constexpr double kBarrierSeconds = 10;
/// This rank's GPU.
inline Device device() { return {DeviceKind::cuda, ranks().rank}; }

/// @throws std::runtime_error naming the call, which ends the case.
void must(cudaError_t error, const char* call);

/// Makes this rank's GPU current.
class OwnDevice {
 public:
  OwnDevice();
  OwnDevice(const OwnDevice&) = delete;
  OwnDevice& operator=(const OwnDevice&) = delete;
  ~OwnDevice();

 private:
  int previous_ = 0;
};

/// Between any memories of this rank, behind the work of `stream`; complete on return.
void copy(void* to, const void* from, std::size_t size_bytes, Stream stream);

/// A new group of `members`, numbers of processes in the order of the group's ranks; all members
/// call this alike. The first group of the process is one of all ranks, made before any other.
ExpertParallelGroup make_group(const std::vector<int>& members,
                               double timeout_seconds = kBarrierSeconds);
std::vector<int> all_ranks();
/// One group of all ranks, which all tests may use, each with its own plans.
const ExpertParallelGroup& world();
/// Waits on the host until all ranks are here.
void meet();

/// A case that fails is the process's last: its rank no longer does what the others do. They are
/// told (FailureNote), and end with an error of their own.
class OnRanks : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  [[nodiscard]] Stream stream() const { return queue.get(); }

  DeviceStream queue;
};

}  // namespace moesaic::ep_tests
