// SPDX-License-Identifier: Apache-2.0
// See nvshmem_process.hpp.

#include "backends/cuda/launch/nvshmem_process.hpp"

#include <fstream>

#include "backends/cuda/launch/cuda_error.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr std::size_t kAlignment = 512;

std::mutex& current_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::weak_ptr<NvshmemProcess>& current_process() {
  static std::weak_ptr<NvshmemProcess> process;
  return process;
}

}  // namespace

std::string host_identity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  return identity.empty() ? "unknown" : identity;
}

std::shared_ptr<NvshmemProcess> NvshmemProcess::current() {
  const std::lock_guard lock(current_mutex());
  return current_process().lock();
}

std::shared_ptr<NvshmemProcess> NvshmemProcess::begin(const NvshmemGroupOptions& options,
                                                      const std::string& unique_id) {
  auto process = std::make_shared<NvshmemProcess>(options, unique_id);
  const std::lock_guard lock(current_mutex());
  current_process() = process;
  return process;
}

NvshmemProcess::NvshmemProcess(const NvshmemGroupOptions& options, const std::string& unique_id)
    : options_(options),
      id_(unique_id),
      job_(unique_id, options.rank, options.num_ranks, options.heap_bytes),
      ranges_(options.heap_bytes, kAlignment) {}

NvshmemProcess::~NvshmemProcess() {
  if (broken_) {
    return;
  }
  try {
    const std::chrono::milliseconds timeout(
        static_cast<std::int64_t>(options_.timeout_seconds * 1000));
    options_.rendezvous->set("end/" + std::to_string(options_.rank), "");
    for (int rank = 0; rank < options_.num_ranks; ++rank) {
      options_.rendezvous->get("end/" + std::to_string(rank), timeout);
    }
    const DeviceScope scope(options_.device.index);
    job_.finalize();
  } catch (const std::exception&) {  // somebody does not come: the process's end frees everything
  }
}

std::size_t NvshmemProcess::allocate(std::size_t size_bytes, const std::string& what) {
  const std::lock_guard lock(mutex_);
  const auto offset = ranges_.allocate(size_bytes);
  if (!offset) {
    throw Error(ErrorCode::device_failure,
                what + ": expected at most the " + std::to_string(ranges_.largest_free_bytes()) +
                    " bytes that are free in one piece, got " + std::to_string(size_bytes) +
                    "; the first group of this process reserved heap_bytes = " +
                    std::to_string(ranges_.size_bytes()));
  }
  return *offset;
}

void NvshmemProcess::release(std::size_t offset) {
  const std::lock_guard lock(mutex_);
  ranges_.release(offset);
}

}  // namespace moesaic::backends::cuda::launch
