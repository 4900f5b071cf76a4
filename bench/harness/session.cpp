// SPDX-License-Identifier: Apache-2.0
// See session.hpp.

#include "harness/session.hpp"

#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "harness/result_row.hpp"

namespace moesaic::bench {
namespace {

/// A comparison with what was measured of it, until each arm has been shown once.
class Measurement {
 public:
  Measurement(Comparison comparison, std::int64_t samples)
      : comparison_(std::move(comparison)), samples_(samples) {}

  [[nodiscard]] const Comparison& comparison() const noexcept { return comparison_; }

  /// Measures when nothing is measured yet, or when this arm has been shown before (a repetition).
  const Measured& show(std::size_t arm) {
    if (!failure_.empty()) {
      throw Error(ErrorCode::device_failure, failure_);
    }
    if (all_.empty() || shown_[arm]) {
      try {
        all_ = measure(comparison_, samples_);
      } catch (const std::exception& error) {
        failure_ = error.what();
        throw;
      }
      shown_.assign(all_.size(), false);
    }
    shown_[arm] = true;
    return all_[arm];
  }
  [[nodiscard]] const Measured& last(std::size_t arm) const { return all_.at(arm); }

 private:
  Comparison comparison_;
  std::int64_t samples_;
  std::vector<Measured> all_;
  std::vector<bool> shown_;
  std::string failure_;
};

using Place = std::pair<const Measurement*, std::size_t>;

/// Prints as Google Benchmark does, and appends a row for every arm that ran.
class RowReporter final : public benchmark::ConsoleReporter {
 public:
  RowReporter(const Options& options, const std::map<std::string, Place>& places)
      : ConsoleReporter(OO_Tabular), command_(options.command), places_(places) {
    if (!options.results.empty()) {
      file_.open(options.results, std::ios::app);
      if (!file_) {
        throw Error(ErrorCode::invalid_argument,
                    "--results: expected a file that can be written, got " + options.results);
      }
    }
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) {
        continue;
      }
      failed_ = failed_ || run.error_occurred;
      if (!run.error_occurred && file_.is_open()) {
        const auto& [measurement, arm] = places_.at(run.run_name.function_name);
        const Json row = result_row(measurement->comparison(), measurement->last(arm), command_);
        file_ << row.dump() << std::endl;  // flushed: a later failure costs no row
        failed_ = failed_ || !file_;
      }
    }
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  std::string command_;
  const std::map<std::string, Place>& places_;
  std::ofstream file_;
  bool failed_ = false;
};

/// "0.96 x dense": how many times as fast as the arm that it is compared with.
std::string label(const Measured& measured) {
  if (measured.ratio <= 0) {
    return {};
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f x ", measured.ratio);
  return text.data() + measured.arm.ratio_to;
}

void show(benchmark::State& state, Measurement& measurement, std::size_t arm) {
  try {
    const Measured& measured = measurement.show(arm);
    auto sample = measured.samples_seconds.begin();
    for ([[maybe_unused]] auto iteration : state) {
      state.SetIterationTime(*sample++);
    }
    const double median = quantile(measured.samples_seconds, 0.5);
    state.counters["median_s"] = median;
    state.counters["p95_s"] = quantile(measured.samples_seconds, 0.95);
    if (measured.arm.useful_flops > 0) {
      state.counters["FLOP/s"] = measured.arm.useful_flops / median;
    }
    if (measured.memory.peak_bytes > 0) {
      state.counters["peak_bytes"] = static_cast<double>(measured.memory.peak_bytes);
    }
    state.counters["checked"] = static_cast<double>(measured.check.elements);
    state.SetLabel(label(measured));
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

}  // namespace

int run_benchmarks(const Options& options, std::vector<Comparison> comparisons, int argc,
                   char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  std::vector<std::unique_ptr<Measurement>> measurements;
  std::map<std::string, Place> places;
  for (Comparison& comparison : comparisons) {
    measurements.push_back(std::make_unique<Measurement>(std::move(comparison), options.samples));
    Measurement& measurement = *measurements.back();
    for (std::size_t arm = 0; arm < measurement.comparison().arms.size(); ++arm) {
      const std::string name =
          measurement.comparison().name + "/" + measurement.comparison().arms[arm];
      places.emplace(name, Place{&measurement, arm});
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&measurement, arm](benchmark::State& state) { show(state, measurement, arm); })
          ->UseManualTime()
          ->Iterations(options.samples)
          ->Unit(benchmark::kMillisecond);
    }
  }
  RowReporter reporter(options, places);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
  return reporter.failed() ? 1 : 0;
}

int guarded_main(int (*body)(int, char**), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
}

}  // namespace moesaic::bench
