// SPDX-License-Identifier: Apache-2.0
// Who used the CPUs, from /proc/stat and the clock of this process.
#include "cpu_load.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

namespace moesaic::cli {
namespace {

double process_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

CpuLoad now() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::ifstream file("/proc/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CpuLoad load = busy_of(text, static_cast<double>(sysconf(_SC_CLK_TCK)), [&set](int cpu) {
    return cpu < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(cpu), &set);
  });
  load.own_seconds = process_seconds();
  return load;
}

}  // namespace

double CpuLoad::other_cpus() const {
  if (cpus == 0 || wall_seconds <= 0) return 0;
  return std::max(0.0, busy_seconds - own_seconds) / wall_seconds;
}

bool CpuLoad::crowded() const {
  // Below the first, ticks say nothing; a fifth of a CPU is more than a system's own work.
  static constexpr double kLeastSeconds = 0.05, kLeastOthers = 0.2, kFull = 0.9;
  return busy_seconds - own_seconds >= kLeastSeconds && other_cpus() >= kLeastOthers &&
         busy_seconds >= kFull * cpus * wall_seconds;
}

CpuLoad busy_of(const std::string& proc_stat, double ticks, const std::function<bool(int)>& mine) {
  CpuLoad load;
  std::istringstream lines(proc_stat);
  for (std::string line; std::getline(lines, line);) {
    // "cpu3 user nice system idle iowait irq softirq steal …": the line "cpu " is of all of them.
    std::istringstream words(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft_irq = 0, steal = 0;
    words >> name >> user >> nice >> system >> idle >> wait >> irq >> soft_irq >> steal;
    if (!words || name.size() < 4 || name.compare(0, 3, "cpu") != 0) continue;
    if (!mine(static_cast<int>(std::strtol(name.c_str() + 3, nullptr, 10)))) continue;
    ++load.cpus;
    load.busy_seconds += (user + nice + system + irq + soft_irq + steal) / ticks;
  }
  return load;
}

CpuLoadMeter::CpuLoadMeter() : start_(Clock::now()), before_(now()) {}

CpuLoad CpuLoadMeter::stop() const {
  CpuLoad load = now();
  load.wall_seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  load.busy_seconds -= before_.busy_seconds;
  load.own_seconds -= before_.own_seconds;
  return load;
}

}  // namespace moesaic::cli
