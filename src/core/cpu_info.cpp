// SPDX-License-Identifier: Apache-2.0
// What the processor says of itself, from /proc/cpuinfo and the scheduler's affinity mask.

#include <sched.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "moesaic/build_info.hpp"

namespace moesaic {
namespace {

/// Instruction sets that decide which CPU code can run, in the order they are printed.
constexpr std::array<std::string_view, 7> kFeatures = {
    "avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16", "amx_tile"};

int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

CpuInfo cpu_info() {
  CpuInfo info;
  info.model = "unknown processor";
  info.threads = usable_threads();
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) {
      continue;
    }
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (line.starts_with("model name")) {
      info.model = value;
    } else if (line.starts_with("flags")) {
      std::istringstream words(value);
      for (std::string word; words >> word;) {
        if (std::find(kFeatures.begin(), kFeatures.end(), word) != kFeatures.end()) {
          info.features.push_back(word);
        }
      }
      break;  // one processor's entry is enough
    }
  }
  return info;
}

}  // namespace moesaic
