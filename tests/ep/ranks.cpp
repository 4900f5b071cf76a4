// SPDX-License-Identifier: Apache-2.0
// See ranks.hpp.

#include "ep/ranks.hpp"

#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>

#include "ep/watched_rendezvous.hpp"

namespace moesaic::ep_tests {
namespace {

Ranks read_environment() {
  Ranks found;
  const char* rank = std::getenv("RANK");
  const char* count = std::getenv("WORLD_SIZE");
  const char* folder = std::getenv("MOESAIC_RENDEZVOUS");
  if (rank == nullptr || count == nullptr || folder == nullptr) {
    found.why_none = "a rank of several processes; scripts/run_ranks.sh starts them";
    return found;
  }
  found.rank = std::atoi(rank);
  found.count = std::atoi(count);
  found.folder = folder;
  const DeviceList devices = list_devices();
  if (static_cast<int>(devices.devices.size()) - 1 < found.count) {  // the first is the CPU
    found.why_none =
        std::to_string(found.count) + " ranks need as many GPUs; " +
        (devices.devices.size() == 1 ? devices.why_no_cuda
                                     : std::to_string(devices.devices.size() - 1) + " here");
  }
  return found;
}

}  // namespace

const Ranks& ranks() {
  static const Ranks found = read_environment();
  return found;
}

std::vector<int> all_ranks() {
  std::vector<int> all;
  for (int rank = 0; rank < ranks().count; ++rank) all.push_back(rank);
  return all;
}

void must(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error));
  }
}

OwnDevice::OwnDevice() {
  must(cudaGetDevice(&previous_), "cudaGetDevice");
  must(cudaSetDevice(device().index), "cudaSetDevice");
}
OwnDevice::~OwnDevice() { cudaSetDevice(previous_); }

void copy(void* to, const void* from, std::size_t size_bytes, Stream stream) {
  if (size_bytes == 0) return;
  const OwnDevice own;
  const auto native = static_cast<cudaStream_t>(stream.native());
  must(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, native), "cudaMemcpyAsync");
  must(cudaStreamSynchronize(native), "cudaStreamSynchronize");
}

namespace {

FailureNote failure_note() { return FailureNote(ranks().folder); }

std::shared_ptr<Rendezvous> rendezvous_in(const std::string& name) {
  return std::make_shared<WatchedRendezvous>(file_rendezvous(ranks().folder + "/" + name),
                                             failure_note());
}

/// The GPU of the next rank; with one rank there is no other.
int another_device() { return (ranks().rank + 1) % ranks().count; }

int current_device() {
  int current = -1;
  must(cudaGetDevice(&current), "cudaGetDevice");
  return current;
}

}  // namespace

ExpertParallelGroup make_group(const std::vector<int>& members, double timeout_seconds) {
  static std::map<std::vector<int>, int> made;
  std::string folder = "group";
  for (const int member : members) folder += "_" + std::to_string(member);
  folder += "_number_" + std::to_string(made[members]++);
  NvshmemGroupOptions options;
  options.num_ranks = static_cast<int>(members.size());
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (members[r] == ranks().rank) options.rank = static_cast<int>(r);
  }
  options.device = device();
  options.rendezvous = rendezvous_in(folder);
  options.heap_bytes = kHeapBytes;
  options.timeout_seconds = timeout_seconds;
  return ExpertParallelGroup::nvshmem(options);
}

namespace {

std::optional<ExpertParallelGroup>& world_group() {
  static std::optional<ExpertParallelGroup> group;
  return group;
}

/// Ends NVSHMEM while CUDA is still there.
class EndOfTests final : public ::testing::Environment {
 public:
  void TearDown() override { world_group().reset(); }
};
const ::testing::Environment* const kEndOfTests =
    ::testing::AddGlobalTestEnvironment(new EndOfTests);  // GoogleTest's from here on

}  // namespace

const ExpertParallelGroup& world() {
  // Processes start some seconds apart, which the first rendezvous of all has to bear.
  if (!world_group()) {
    meet();
    world_group() = make_group(all_ranks());
  }
  return *world_group();
}

void meet() {
  static int meetings = 0;
  const auto rendezvous = rendezvous_in("meeting_" + std::to_string(meetings++));
  rendezvous->set(std::to_string(ranks().rank), "");
  for (const int rank : all_ranks()) {
    rendezvous->get(std::to_string(rank), std::chrono::seconds(60));
  }
}

void OnRanks::SetUp() {
  if (!ranks().why_none.empty()) GTEST_SKIP() << ranks().why_none;
  GTEST_FLAG_SET(fail_fast, true);
  must(cudaSetDevice(another_device()), "cudaSetDevice");
  static_cast<void>(world());
  queue = DeviceStream(device());
}

void OnRanks::TearDown() {
  if (!ranks().why_none.empty()) return;
  EXPECT_EQ(current_device(), another_device()) << "a call left another device current";
  if (HasFailure()) {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    failure_note().leave("rank " + std::to_string(ranks().rank) +
                         " has failed: " + test->test_suite_name() + "." + test->name());
  }
}

}  // namespace moesaic::ep_tests
