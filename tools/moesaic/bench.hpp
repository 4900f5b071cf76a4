// SPDX-License-Identifier: Apache-2.0
// One comparison of `bench`: a record's product by every strategy, checked, then timed in turn.
// Rows are bench_row.cpp's, the table bench_output.cpp's, what is gone through cmd_bench.cpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "moesaic/device_telemetry.hpp"
#include "regime.hpp"
#include "run.hpp"

namespace moesaic::cli {

/// How a case was timed that was timed alone.
struct SustainedRun {
  SustainedRegions regions;
  std::int64_t calls_per_sample = 1;
  std::int64_t late = 0;  ///< Units that the device had to wait for.
};

/// A finished case: what `run` knows of it, and its circumstances.
struct BenchCase {
  RunCase run;  ///< seconds is the median of samples_seconds.
  GroupedGemmProblem problem;
  std::vector<std::int64_t> counts;
  std::uint64_t seed = 1;
  std::vector<double> samples_seconds;
  std::int64_t warm_ups = 0;
  std::optional<SustainedRun> sustained;  ///< Empty: a short burst.
  bool gated = false;          ///< Behind a gate; else between events, host and all, or sustained.
  std::int64_t min_bytes = 0;  ///< Every operand and result of useful work once.
  TelemetrySummary clocks;
  /// Experts by GroupedGemm::regime; empty where the implementation has but one.
  std::map<std::string, std::int64_t> regimes;
  double base_seconds = 0;     ///< Median of the row it is compared with; 0: there is none.
  bool base_unsteady = false;  ///< That row was: the ratio says nothing.
  [[nodiscard]] double ratio_to_base() const { return run.seconds / base_seconds; }
};

/// Bytes that useful work cannot avoid: routed rows, weights of active experts, the result.
std::int64_t min_bytes(const GroupedGemmProblem& problem, std::span<const std::int64_t> counts);

/// The same of a layer's step: intermediates could stay on chip.
std::int64_t min_bytes(const ExpertMlpProblem& problem, std::span<const std::int64_t> counts);

/// The preset whose constants stand for this device's peaks; null for a device without one.
const planner::DeviceModel* peak_model(const DeviceInfo& device);
/// Seconds under which no kernel can stay at these peaks, over the case's; 0 without peaks.
double roofline_fraction(const BenchCase& one, const DeviceInfo& device);

/// What a comparison found. A strategy whose check failed is timed by nobody and has no row.
struct BenchResults {
  std::vector<BenchCase> cases;
  std::vector<RunCase> wrong;
  std::vector<SkippedCase> skipped;
};

/// How the arms of a comparison are timed.
struct BenchTiming {
  std::int64_t samples = 20;                    ///< Of a short burst.
  std::optional<SustainedRegions> sustained{};  ///< Instead: products only.
};

/// Checks every strategy of `flags` on one record, then times those that passed. Short bursts in
/// rotating order: behind one gate the ones that never wait for the device, after them the others.
/// Sustained work one after the other, to and fro; an arm that waits for the device is skipped.
/// @throws Error like run_gemm.
void bench_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                std::uint64_t seed, const BenchTiming& timing, const CaseProgress& progress,
                BenchResults& results);

/// Told each range and what ran in it.
using ProfileHook = std::function<void(const std::string& range, const BenchCase& one)>;
/// Checks every strategy of `flags` on one record, then executes those that passed once more, each
/// in a named range of its own, numbered on by results.cases. Nothing is timed.
/// @throws Error like run_gemm.
void profile_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                  std::uint64_t seed, const ProfileHook& ranged, BenchResults& results);

/// "cpu/onednn/grouped: 3 of 64 elements wrong, not timed; first y (expert 0, ...)".
std::string wrong_words(const RunCase& one);

/// The same for the SwiGLU layer: a sample is a forward and a backward. With U kept, and computed
/// again too if `flags` say so.
void bench_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
               std::uint64_t seed, const BenchTiming& timing, const CaseProgress& progress,
               BenchResults& results);

/// True for a case that may be timed; else it is noted as wrong, or as skipped.
bool keep_checked(const routing::Record& record, BenchCase& one, BenchResults& results);

/// The table of cases; with a column for the ratio when there is something to compare with.
std::string bench_text(const std::vector<BenchCase>& cases, const DeviceInfo& device);

/// Where a case runs and with what it was built: the same in every row of a process.
struct BenchSetting {
  std::string command;
  DeviceInfo device;
  DeviceCircumstances circumstances;
};
/// One JSON line, schema moesaic.bench/1, without a newline.
std::string bench_row(const BenchCase& one, const BenchSetting& setting);
/// The same, schema moesaic.profile_range/1: by which counters of a range find their row.
std::string range_row(const std::string& range, const BenchCase& one, const BenchSetting& setting);

/// Rows of an earlier run, found again by device, problem and routing.
class BenchBase {
 public:
  /// @throws Error{invalid_argument} naming the file and line that cannot be read.
  explicit BenchBase(const std::string& path);
  /// Rows that were skipped: cut off, or without a passed check.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  struct Found {
    double seconds = 0;  ///< Median.
    bool unsteady = false;
  };
  /// The last row of this case. Commit, samples and instance may differ.
  [[nodiscard]] std::optional<Found> find(const BenchCase& one, const DeviceInfo& device) const;

 private:
  struct Row {
    std::string key;
    Found found;
  };
  std::vector<Row> rows_;
  std::vector<std::string> warnings_;
};

}  // namespace moesaic::cli
