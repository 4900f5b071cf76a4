// SPDX-License-Identifier: Apache-2.0
// The times of a case, and whether they can be believed.
#include <algorithm>

#include "run.hpp"
#include "stats.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// A 95th percentile above so many medians is more than caches and clocks do.
constexpr double kWildSpread = 2;

}  // namespace

bool RunCase::unsteady() const {
  return backend == "cpu" && samples > 0 && (p95_seconds > kWildSpread * seconds || load.crowded());
}

void set_times(RunCase& result, const std::vector<double>& samples_seconds, const CpuLoad& load) {
  result.samples = static_cast<std::int64_t>(samples_seconds.size());
  result.seconds = median(samples_seconds);
  result.p05_seconds = quantile(samples_seconds, 0.05);
  result.p95_seconds = quantile(samples_seconds, 0.95);
  if (result.backend == "cpu") result.load = load;
}

void set_grouped(const std::vector<RunCase*>& same) {
  for (const RunCase* grouped : same) {
    if (grouped->strategy != Strategy::grouped || grouped->named) continue;
    for (RunCase* one : same) one->grouped_seconds = grouped->seconds;
  }
}

std::string spread_words(const RunCase& one) {
  return duration(one.p95_seconds) + (one.unsteady() ? " unsteady" : "");
}

std::string unsteady_warning(const std::vector<RunCase>& cases) {
  std::vector<std::string> strategies;
  double others = 0;
  int cpus = 0;
  for (const RunCase& one : cases) {
    if (!one.unsteady()) continue;
    const std::string word(name(one.strategy));
    if (std::find(strategies.begin(), strategies.end(), word) == strategies.end()) {
      strategies.push_back(word);
    }
    if (one.load.crowded() && one.load.other_cpus() > others) {
      others = one.load.other_cpus();
      cpus = one.load.cpus;
    }
  }
  if (strategies.empty()) return {};
  const std::string share = cpus > 0 ? format(" (%.1f of %d)", others, cpus) : "";
  return "unsteady times of " + join(strategies, ", ") +
         ": another process was probably using the CPUs" + share +
         ", where threads that spin for one another stand still; measure again without it, or with "
         "OMP_WAIT_POLICY=passive";
}

}  // namespace moesaic::cli
