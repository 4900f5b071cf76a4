// SPDX-License-Identifier: Apache-2.0
// What is compared: arms that do the same work on the same data, checked first, then timed in turn
// (A B C A B C ...) within one process. No Google Benchmark here, and no JSON file.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "moesaic/check.hpp"

namespace moesaic::bench {

using Json = nlohmann::ordered_json;

/// The rows per expert that a comparison runs on, and how they were made.
struct Routing {
  std::string name;  ///< "uniform", "zipf:1.2", ...
  std::uint64_t seed = 0;
  std::vector<std::int64_t> counts;
};

/// Resident memory of a process; the kernel's figure cannot show less than `floor_bytes`.
struct PeakMemory {
  std::int64_t peak_bytes = 0;  ///< 0: not measured.
  std::int64_t floor_bytes = 0;
};

/// One way to do the work.
struct Arm {
  std::string name;            ///< "grouped_packed"
  std::string implementation;  ///< "cpu/onednn/grouped"
  Json problem;                ///< Everything that a reader needs to run it again.
  std::string ratio_to;        ///< The arm to compare with; empty for none.
  double useful_flops = 0;     ///< Of rows that carry a route; 0 where nothing is multiplied.
  double executed_flops = 0;
  std::string check_reference;         ///< What `check` compares with.
  std::function<CheckResult()> check;  ///< Poisons the output, runs once, compares.
  std::function<void()> run;           ///< What is timed.
  std::function<PeakMemory()> memory;  ///< Of all runs so far; empty where it is not measured.
};

/// Arms of one routing. Operands live from `prepare` until all arms are timed.
struct Comparison {
  std::string name;
  Routing routing;
  std::vector<std::string> arms;  ///< Names of what `prepare` returns, in its order.
  std::function<std::vector<Arm>()> prepare;
};

/// One arm's outcome.
struct Measured {
  Arm arm;  ///< Its functions are empty: the operands are gone.
  CheckResult check;
  std::vector<double> samples_seconds;  ///< In the order of the runs.
  PeakMemory memory;
  double ratio = 0;  ///< Median seconds of `ratio_to` / own median seconds: above 1 is faster.
};

/// Checks every arm, then times them in turn, `samples` times each after two untimed rounds.
/// @throws Error{device_failure} on the first mismatch or a check that looked at nothing, before
/// anything is timed; whatever an arm throws.
std::vector<Measured> measure(const Comparison& comparison, std::int64_t samples);

/// The value below which `fraction` of the samples lie, linear between neighbours.
double quantile(std::vector<double> samples, double fraction);

}  // namespace moesaic::bench
