// SPDX-License-Identifier: Apache-2.0
// moesaic bench: which comparisons, their rows, and how they stand to those of an earlier run.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.hpp"
#include "bench.hpp"
#include "commands.hpp"
#include "interrupt.hpp"
#include "machine.hpp"
#include "progress.hpp"
#include "row_sink.hpp"
#include "selection.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// One product, or the layer, of one record.
struct Comparison {
  routing::Record record;
  RunFlags flags;
  [[nodiscard]] double work() const {
    const GroupedGemmProblem problem =
        gemm_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
    const double products = flags.pass == RunPass::mlp ? 4.5 : 1;  // 18dh of up_gate's 4dh
    return static_cast<double>(record.rows() + 1) * static_cast<double>(problem.n) *
           static_cast<double>(problem.k) * products;
  }
};

/// A file that is read for every number of rows says the same each time.
void add_new(const std::vector<std::string>& lines, std::vector<std::string>& all) {
  for (const std::string& line : lines) {
    if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(line);
  }
}

/// Every number of rows, record, shape, pass and projection; the outermost varies slowest.
std::vector<Comparison> comparisons(const Options& options, InputReport& report) {
  std::vector<std::optional<std::int64_t>> rows(options.bench.rows.begin(),
                                                options.bench.rows.end());
  if (rows.empty()) rows.push_back(std::nullopt);
  std::vector<Comparison> all;
  for (const planner::LayerShape& shape : options.bench.shapes) {
    for (const std::optional<std::int64_t>& count : rows) {
      InputOptions input = options.input;
      input.rows = count;
      ChosenRecords chosen = choose_records(input, shape.training);
      for (const routing::Record& record : chosen.records) {
        for (const planner::Projection projection : options.bench.projections) {
          for (const RunPass pass : options.bench.passes) {
            // The layer has no projection: once is enough.
            const bool again = projection != options.bench.projections.front();
            if (pass == RunPass::mlp && again) continue;
            RunFlags flags = options.run;
            flags.shape = shape;
            flags.pass = pass;
            flags.projection = projection;
            all.push_back({record, std::move(flags)});
          }
        }
      }
      add_new(chosen.report.notes, report.notes);
      add_new(chosen.report.warnings, report.warnings);
    }
  }
  return all;
}

BenchTiming timing_of(const BenchFlags& flags) {
  BenchTiming timing;
  timing.samples = flags.samples.value_or(timing.samples);
  if (flags.sustained_seconds) timing.sustained = sustained_regions(*flags.sustained_seconds);
  return timing;
}

/// What of a case a row of an earlier run is found by.
BenchCase base_case(const Comparison& comparison, const Options& options, const DeviceInfo& device,
                    Strategy strategy) {
  BenchCase one;
  one.run = describe_case(comparison.record, comparison.flags, device, strategy);
  one.problem = gemm_problem(comparison.flags, one.run.experts, one.run.rows);
  one.problem.strategy = strategy;
  one.counts = comparison.record.counts;
  if (options.bench.sustained_seconds) {
    one.sustained = {sustained_regions(*options.bench.sustained_seconds), 0};
  }
  return one;
}

/// Refuses a base that has none of the cases, before anything is timed.
void require_match(const BenchBase& base, const std::vector<Comparison>& all,
                   const Options& options, const DeviceInfo& device) {
  for (const Comparison& comparison : all) {
    for (const std::string& name : options.run.implementations) {
      BenchCase one = base_case(comparison, options, device, strategy_of(name));
      one.run.implementation = name;
      one.run.named = true;
      if (base.find(one, device)) return;
    }
    for (const Strategy strategy : options.run.strategies) {
      BenchCase one = base_case(comparison, options, device, strategy);
      for (const Activations mode : {Activations::save, Activations::recompute}) {
        one.run.activations = mode;
        if (base.find(one, device)) return;
        if (one.run.x_rows == XRows::in_order) continue;
        one.run.x_rows = XRows::copied;
        if (base.find(one, device)) return;
        one.run.x_rows = XRows::indexed;
      }
    }
  }
  refuse("--compare", "rows of at least one of these cases on " + device.name,
         options.bench.compare_path + ", which has none");
}

/// Runs one comparison and hands its rows on.
void run_one(const Comparison& comparison, const BenchSetting& setting, const Options& options,
             const BenchBase* base, RowSink& sink, const CaseProgress& told,
             BenchResults& results) {
  const std::size_t before = results.cases.size();
  const auto bench = comparison.flags.pass == RunPass::mlp ? bench_mlp : bench_gemm;
  bench(comparison.record, comparison.flags, setting.device, options.input.seed,
        timing_of(options.bench), told, results);
  for (std::size_t i = before; i < results.cases.size(); ++i) {
    BenchCase& one = results.cases[i];
    if (base != nullptr) {
      const BenchBase::Found found = base->find(one, setting.device).value_or(BenchBase::Found{});
      one.base_seconds = found.seconds;
      one.base_unsteady = found.unsteady;
    }
    sink.write(bench_row(one, setting));
  }
}

BenchResults run_all(const std::vector<Comparison>& all, const BenchSetting& setting,
                     const Options& options, const BenchBase* base, RowSink& sink) {
  double total = 0, done = 0;
  for (const Comparison& comparison : all) total += comparison.work();
  Progress progress("bench", total);
  BenchResults results;
  std::optional<Interrupt> interrupt;  // before the first comparison there is nothing to print
  for (const Comparison& comparison : all) {
    if (Interrupt::came()) break;
    const CaseProgress told = [&](Strategy strategy, double) {
      progress.update(done, place_of(comparison.record) + " " +
                                std::string(name(comparison.flags.pass)) + " " +
                                std::string(name(strategy)));
    };
    run_one(comparison, setting, options, base, sink, told, results);
    done += comparison.work();
    if (!interrupt) interrupt.emplace();
  }
  return results;
}

/// What went wrong, on stderr. True when nothing did.
bool report_failures(const BenchResults& results, const BenchFlags& flags) {
  for (const RunCase& one : results.wrong) {
    std::fprintf(stderr, "moesaic bench: %s\n", wrong_words(one).c_str());
  }
  static constexpr double kThreshold = 0.03;
  bool fast = true;
  for (const BenchCase& one : results.cases) {
    if (one.base_seconds <= 0 || one.base_unsteady ||
        one.ratio_to_base() <= 1 + flags.threshold.value_or(kThreshold)) {
      continue;
    }
    fast = false;
    std::fprintf(stderr, "moesaic bench: %s, %lld rows, %s %s: %s, %.3f times the %s in %s\n",
                 one.run.source.c_str(), static_cast<long long>(one.run.rows),
                 std::string(name(one.run.pass)).c_str(),
                 one.run.named ? one.run.implementation.c_str()
                               : std::string(name(one.problem.strategy)).c_str(),
                 duration(one.run.seconds).c_str(), one.ratio_to_base(),
                 duration(one.base_seconds).c_str(), flags.compare_path.c_str());
  }
  return fast && results.wrong.empty();
}

/// --profile: one range per strategy of every comparison, listed on stdout.
BenchResults profile_all(const std::vector<Comparison>& all, const BenchSetting& setting,
                         const Options& options) {
  BenchResults results;
  for (const Comparison& comparison : all) {
    profile_gemm(
        comparison.record, comparison.flags, setting.device, options.input.seed,
        [&](const std::string& range, const BenchCase& one) {
          std::printf("%s\n", range_row(range, one, setting).c_str());
        },
        results);
  }
  return results;
}

void report_skipped(const BenchResults& results) {
  for (const SkippedCase& skipped : results.skipped) {
    std::fprintf(stderr, "moesaic bench: skipped %s: %s\n", skipped.where.c_str(),
                 skipped.reason.c_str());
  }
  if (results.cases.empty() && results.wrong.empty()) {
    throw Error(ErrorCode::unsupported, "nothing could be timed here; the reasons stand above");
  }
}

}  // namespace

ExitCode cmd_bench(const Options& options) {
  InputReport report;
  const std::vector<Comparison> all = comparisons(options, report);
  const auto has_rows = [](const Comparison& one) { return !one.record.dense(); };
  if (std::none_of(all.begin(), all.end(), has_rows)) {
    refuse("input", "a record with rows, since nothing else can be timed",
           options.input.inputs.front() + ", which has none");
  }
  const Comparison& first = all.front();
  // Only CUDA devices have a profiler that sees ranges.
  const BackendChoice backend = options.bench.profile ? BackendChoice::cuda : options.run.backend;
  const DeviceChoice choice = choose_device(backend, [&](const DeviceInfo& device) {
    return why_not_on(device, first.flags, first.record);
  });
  std::unique_ptr<BenchBase> base;
  if (!options.bench.compare_path.empty()) {
    base = std::make_unique<BenchBase>(options.bench.compare_path);
    require_match(*base, all, options, choice.device);
  }
  RowSink sink(options.bench.json_path);
  if (base) add_new(base->warnings(), report.warnings);
  print_report(report, "bench", true);
  print_choice(choice, "bench");
  if (options.bench.sustained_seconds) {
    const SustainedRegions regions = sustained_regions(*options.bench.sustained_seconds);
    const double pass =
        regions.pilot_seconds + regions.conditioning_seconds + regions.measured_seconds;
    std::fprintf(stderr, "moesaic bench: every case is worked on twice for about %s\n",
                 duration(pass).c_str());
  }
  const BenchSetting setting{options.command, choice.device,
                             device_circumstances(choice.device.device)};
  if (options.bench.profile) {
    const BenchResults profiled = profile_all(all, setting, options);
    report_skipped(profiled);
    return report_failures(profiled, options.bench) ? ExitCode::fine : ExitCode::check_failed;
  }
  const BenchResults results = run_all(all, setting, options, base.get(), sink);
  report_skipped(results);
  if (!sink.takes_stdout()) std::fputs(bench_text(results.cases, choice.device).c_str(), stdout);
  std::vector<RunCase> timed;
  timed.reserve(results.cases.size());
  for (const BenchCase& one : results.cases) timed.push_back(one.run);
  const std::string warning = unsteady_warning(timed);
  if (!warning.empty()) std::fprintf(stderr, "moesaic bench: warning: %s\n", warning.c_str());
  const auto unsteady_base = std::count_if(results.cases.begin(), results.cases.end(),
                                           [](const BenchCase& one) { return one.base_unsteady; });
  if (unsteady_base > 0) {
    std::fprintf(stderr, "moesaic bench: warning: %s: %lld rows were unsteady, and judge nothing\n",
                 options.bench.compare_path.c_str(), static_cast<long long>(unsteady_base));
  }
  const bool good = report_failures(results, options.bench);
  if (Interrupt::came()) end_interrupted();
  if (!good) return ExitCode::check_failed;
  const bool throttled = std::any_of(results.cases.begin(), results.cases.end(),
                                     [](const BenchCase& one) { return one.clocks.throttled(); });
  const bool doubtful = throttled || !warning.empty() || !results.skipped.empty();
  return options.output.strict && doubtful ? ExitCode::skipped : ExitCode::fine;
}

}  // namespace moesaic::cli
