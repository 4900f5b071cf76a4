// SPDX-License-Identifier: Apache-2.0
// Threads, free memory and devices of the machine.
#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "moesaic/error.hpp"
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

void require_memory(const MemoryNeed& need) {
  const double available = available_memory_bytes();
  const double bytes = need.weights_bytes + need.rows_bytes;
  if (available <= 0 || bytes <= available) return;
  static constexpr const char* kShare = "take a share of the experts with --ep and --rank";
  if (need.weights_bytes > available) {
    throw Error(ErrorCode::invalid_argument,
                "--shape: expected weights that fit into the " + byte_count(available) +
                    " of memory available, got a layer whose weights alone need " +
                    byte_count(need.weights_bytes) + "; choose narrower widths, or " + kShare);
  }
  throw Error(ErrorCode::invalid_argument,
              "--rows: expected operands that fit into the " + byte_count(available) +
                  " of memory available, got a record that needs " + byte_count(bytes) +
                  "; rescale it with --rows, or " + kShare);
}

Strategy strategy_of(std::string_view implementation) {
  for (const Strategy baseline : {Strategy::padded_bmm, Strategy::host_loop}) {
    if (implementation.ends_with("/" + std::string(name(baseline)))) return baseline;
  }
  return Strategy::grouped;
}

std::string reasons_against(const std::vector<Candidate>& candidates, Strategy strategy) {
  std::vector<std::string> reasons;
  for (const Candidate& candidate : candidates) {
    if (candidate.support) return {};
    if (strategy_of(candidate.implementation) != strategy) continue;
    reasons.push_back(candidate.implementation + ": " + candidate.support.reason);
  }
  return reasons.empty() ? "this build has no implementation for it" : join(reasons, "; ");
}

DeviceChoice choose_device(BackendChoice choice, const Refusal& refusal) {
  DeviceChoice result{query_device(Device{}), {}};
  if (choice == BackendChoice::cpu) return result;
  const DeviceList list = list_devices();
  for (const DeviceInfo& device : list.devices) {
    if (device.device.kind != DeviceKind::cuda) continue;
    std::string why = refusal(device);
    if (why.empty()) return {device, {}};
    if (result.why_not_cuda.empty()) {
      result.why_not_cuda = to_string(device.device) + " (" + device.name + ") cannot: " + why;
    }
  }
  if (choice == BackendChoice::automatic) return result;
  if (!result.why_not_cuda.empty()) {
    throw Error(ErrorCode::unsupported, "--backend cuda: " + result.why_not_cuda);
  }
  // The library's reason begins with these words when it stands alone.
  static constexpr std::string_view kPrefix = "no CUDA device: ";
  std::string_view reason = list.why_no_cuda;
  if (reason.starts_with(kPrefix)) reason.remove_prefix(kPrefix.size());
  throw Error(ErrorCode::device_failure,
              "--backend cuda: expected a CUDA device, got none: " + std::string(reason));
}

void print_choice(const DeviceChoice& choice, const std::string& verb) {
  if (!choice.why_not_cuda.empty()) {
    std::fprintf(stderr, "moesaic %s: --backend auto: %s; using the CPU\n", verb.c_str(),
                 choice.why_not_cuda.c_str());
  }
  std::fprintf(stderr, "moesaic %s: backend %s: %s\n", verb.c_str(),
               to_string(choice.device.device).c_str(), choice.device.name.c_str());
}

}  // namespace moesaic::cli
