// SPDX-License-Identifier: Apache-2.0
// Threads, free memory and devices of the machine.
#include "machine.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "text.hpp"

namespace moesaic::cli {

void parallel_pieces(std::int64_t count,
                     const std::function<void(std::int64_t, std::int64_t)>& work) {
  const std::int64_t hardware = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t threads =
      std::clamp<std::int64_t>(count, 1, std::min<std::int64_t>(hardware, 64));
  std::vector<std::jthread> pool;
  for (std::int64_t i = 1; i < threads; ++i) {
    pool.emplace_back(
        [&work, count, threads, i] { work(count * i / threads, count * (i + 1) / threads); });
  }
  work(0, count / threads);
}

namespace {

/// The number after `key`, in kB, of /proc/meminfo; 0 when absent.
double meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  double kilobytes = 0;
  while (file >> word) {
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// The number in a control-group file; 0 for "max" or no file.
double number_in(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? value : 0;
}

}  // namespace

double available_memory_bytes() {
  double available = meminfo_bytes("MemAvailable:");
  static const std::string kGroup = "/sys/fs/cgroup/memory.";
  const double limit = number_in(kGroup + "max");
  if (limit > 0) {
    // Page cache counts as current but gives way.
    const double left = limit - number_in(kGroup + "current") + meminfo_bytes("Inactive(file):");
    available = available > 0 ? std::min(available, std::max(left, 1.0)) : std::max(left, 1.0);
  }
  return available;
}

void require_memory(double bytes) {
  const double available = available_memory_bytes();
  if (available > 0 && bytes > available) {
    throw Error(
        ErrorCode::invalid_argument,
        "--rows: expected operands that fit into the " + byte_count(available) +
            " of memory available, got a record that needs " + byte_count(bytes) +
            "; rescale it with --rows, or take a share of the experts with --ep and --rank");
  }
}

DeviceInfo choose_device(BackendChoice choice, const GroupedGemmProblem& problem) {
  const DeviceInfo cpu = query_device(Device{});
  if (choice == BackendChoice::cpu) return cpu;
  const DeviceList list = list_devices();
  for (const DeviceInfo& device : list.devices) {
    if (device.device.kind != DeviceKind::cuda) continue;
    if (choice == BackendChoice::cuda) return device;
    for (const Candidate& candidate : GroupedGemm::candidates(problem, device)) {
      if (candidate.support) return device;
    }
  }
  if (choice == BackendChoice::cuda) {
    throw Error(ErrorCode::device_failure,
                "--backend cuda: expected a CUDA device, got none: " +
                    (list.why_no_cuda.empty() ? "no device is visible" : list.why_no_cuda));
  }
  return cpu;
}

}  // namespace moesaic::cli
