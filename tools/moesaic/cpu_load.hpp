// SPDX-License-Identifier: Apache-2.0
// Who used the CPUs while something was timed. Threads that spin for one another all wait when
// another process holds the CPU of one: such a time may be hundreds of times too long, and steady.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace moesaic::cli {

/// CPU seconds in a span of time, of the CPUs that this process may use.
struct CpuLoad {
  int cpus = 0;  ///< 0: the system does not tell.
  double wall_seconds = 0, busy_seconds = 0, own_seconds = 0;

  /// CPUs that other processes kept busy, on average.
  [[nodiscard]] double other_cpus() const;
  /// True when others took of the CPUs what this process would have used: hardly a CPU was idle.
  [[nodiscard]] bool crowded() const;
};

/// `cpus` and `busy_seconds` since the system's start, of the CPUs for which `mine` is true, from
/// the text of /proc/stat with `ticks` a second.
CpuLoad busy_of(const std::string& proc_stat, double ticks, const std::function<bool(int)>& mine);

/// Measures from its construction to stop(). The system counts in ticks of 10 ms.
class CpuLoadMeter {
 public:
  CpuLoadMeter();
  [[nodiscard]] CpuLoad stop() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  CpuLoad before_;
};

}  // namespace moesaic::cli
