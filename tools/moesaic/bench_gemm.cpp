// SPDX-License-Identifier: Apache-2.0
// Checks and times the strategies of one product side by side.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "bench.hpp"
#include "gemm_operands.hpp"
#include "interrupt.hpp"
#include "machine.hpp"
#include "moesaic/profile_range.hpp"
#include "operands.hpp"
#include "sustained.hpp"
#include "turns.hpp"

namespace moesaic::cli {
namespace {

/// One strategy of the comparison, ready to run.
struct Arm {
  const GroupedGemm* gemm;
  SiteWorkspace workspace;
  BenchCase result;
};

BenchCase describe(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                   const GroupedGemm& gemm, bool named, std::uint64_t seed) {
  BenchCase one;
  one.problem = gemm.problem();
  one.counts = record.counts;
  one.seed = seed;
  one.run = describe_case(record, flags, device, gemm.problem().strategy);
  one.run.implementation = gemm.implementation();
  one.run.named = named;
  const std::int64_t flops_per_row = 2 * one.problem.n * one.problem.k;
  one.run.useful_flops = one.run.rows * flops_per_row;
  one.run.executed_flops = executed_rows(record, flags, one.run) * flops_per_row;
  one.min_bytes = min_bytes(one.problem, one.counts);
  for (const std::int64_t rows : one.counts) {
    const std::string_view regime = gemm.regime(rows);
    if (!regime.empty()) ++one.regimes[std::string(regime)];
  }
  return one;
}

/// Times the arms of one gate and fills in their results.
void time_arms(std::span<Arm*> arms, const GroupedGemmArgs& args, const Site& site,
               std::int64_t samples, TimerGate gate) {
  const std::int64_t warm_ups = warm_ups_on(site.on_host(), kGpuWarmUps);
  std::vector<std::function<void()>> calls;
  for (const Arm* arm : arms) {
    calls.emplace_back(
        [&args, &site, arm] { arm->gemm->execute(args, arm->workspace.get(), site.stream()); });
  }
  TurnTimes times = time_in_turns(site, calls, {warm_ups, samples}, gate);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    BenchCase& result = arms[i]->result;
    result.samples_seconds = std::move(times.samples_seconds[i]);
    result.clocks = times.clocks;
    result.warm_ups = warm_ups;
    result.gated = !site.on_host() && gate == TimerGate::closed;
    set_times(result.run, result.samples_seconds, times.load);
  }
}

/// The same of sustained work: to and fro, so that a drift of the device meets all arms alike.
void time_sustained_arms(std::span<Arm*> arms, const GroupedGemmArgs& args, const Site& site,
                         const SustainedRegions& regions, const CaseProgress& progress) {
  std::vector<Arm*> course(arms.begin(), arms.end());
  course.insert(course.end(), arms.rbegin(), arms.rend());
  std::map<const Arm*, std::vector<TelemetrySample>> looks;
  for (Arm* arm : course) {
    if (Interrupt::came()) return;  // arms without times have no row
    BenchCase& result = arm->result;
    progress(result.run.strategy, 0);
    SustainedTimes times = time_sustained(
        site, [&] { arm->gemm->execute(args, arm->workspace.get(), site.stream()); }, regions,
        kGpuWarmUps, result.sustained ? result.sustained->calls_per_sample : 0);
    const std::int64_t late = times.late + (result.sustained ? result.sustained->late : 0);
    result.sustained = {regions, times.calls_per_sample, late};
    result.warm_ups = times.warm_ups;
    result.samples_seconds.insert(result.samples_seconds.end(), times.samples_seconds.begin(),
                                  times.samples_seconds.end());
    std::vector<TelemetrySample>& seen = looks[arm];
    seen.insert(seen.end(), times.looks.begin(), times.looks.end());
    result.clocks = summarize(seen, times.why_no_looks);
    // Of two loads the one that says more against the times.
    const bool worse = times.load.other_cpus() >= result.run.load.other_cpus();
    set_times(result.run, result.samples_seconds, worse ? times.load : result.run.load);
  }
}

}  // namespace

std::int64_t min_bytes(const GroupedGemmProblem& problem, std::span<const std::int64_t> counts) {
  const std::int64_t element = problem.format == Format::bf16 ? 2 : 4;
  const std::int64_t result = size_bytes(problem.d_dtype);
  const std::int64_t matrix = problem.n * problem.k;
  std::int64_t rows = 0, active = 0;
  for (const std::int64_t count : counts) {
    rows += count;
    active += count > 0 ? 1 : 0;
  }
  if (problem.pass == Pass::wgrad) {
    // Every dw[e] is written, that of an empty expert too.
    return element * rows * (problem.n + problem.k) + result * problem.num_experts * matrix;
  }
  const bool forward = problem.pass == Pass::forward;
  return element * (rows * (forward ? problem.k : problem.n) + active * matrix) +
         result * rows * (forward ? problem.n : problem.k);
}

const planner::DeviceModel* peak_model(const DeviceInfo& device) {
  struct Name {
    const char* part;
    const char* preset;
  };
  // The first that fits; a longer name stands before its own part.
  static constexpr Name kNames[] = {
      {"GB300", "gb300"}, {"GB200", "gb200"},         {"B300", "b300"}, {"B200", "b200"},
      {"H200", "h200"},   {"H100 PCIe", "h100-pcie"}, {"H100", "h100"}, {"A100", "a100"}};
  if (device.device.kind != DeviceKind::cuda) return nullptr;
  for (const Name& name : kNames) {
    if (device.name.find(name.part) != std::string::npos) {
      return &planner::device_preset(name.preset);
    }
  }
  return nullptr;
}

double roofline_fraction(const BenchCase& one, const DeviceInfo& device) {
  const planner::DeviceModel* peak = peak_model(device);
  if (peak == nullptr || one.problem.format != Format::bf16) return 0;
  const double bound =
      std::max(static_cast<double>(one.run.useful_flops) / peak->bf16_flops_per_second.value,
               static_cast<double>(one.min_bytes) / peak->dram_bytes_per_second.value);
  return bound / one.run.seconds;
}

bool keep_checked(const routing::Record& record, BenchCase& one, BenchResults& results) {
  const CheckResult& check = one.run.check;
  if (check.mismatches > 0) {
    results.wrong.push_back(std::move(one.run));
    return false;
  }
  if (check.elements == 0 || record.rows() == 0) {
    results.skipped.push_back({place_of(record) + ", " + std::string(name(one.run.strategy)),
                               "no expert has a row, so there is nothing to check or to time"});
    return false;
  }
  return true;
}

namespace {

/// The strategies of one record that passed their check, with all that executing them takes.
struct CheckedArms {
  explicit CheckedArms(Device device) : site(device) {}
  Site site;
  GemmTensors tensors;
  std::vector<PlannedGemm> planned;
  std::vector<Arm> arms;
};

/// What failed or cannot run goes to `results`. Null when no strategy can run.
std::unique_ptr<CheckedArms> check_arms(const routing::Record& record, const RunFlags& flags,
                                        const DeviceInfo& device, std::uint64_t seed,
                                        const CaseProgress& progress, BenchResults& results) {
  end_offsets(record.counts);  // refuses rows past int32 before the problem is looked at
  const GroupedGemmProblem problem =
      gemm_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
  RunResults planning;
  auto checked = std::make_unique<CheckedArms>(device.device);
  checked->planned = plan_strategies(record, flags, device, problem, planning);
  results.skipped.insert(results.skipped.end(), planning.skipped.begin(), planning.skipped.end());
  if (checked->planned.empty()) return nullptr;
  require_memory(memory_need(problem, checked->planned, device));
  checked->tensors = make_operands(problem, record, seed);
  const Site& site = checked->site;
  checked->tensors.stage_inputs(site);
  for (const PlannedGemm& plan : checked->planned) {
    progress(plan.strategy, 0);
    Arm arm{&plan.gemm, SiteWorkspace(plan.gemm.workspace_bytes(), site.stream()),
            describe(record, flags, device, plan.gemm, plan.named, seed)};
    arm.result.run.check =
        execute_and_check(plan.gemm, checked->tensors, arm.workspace, site, seed);
    if (keep_checked(record, arm.result, results)) checked->arms.push_back(std::move(arm));
  }
  return checked;
}

}  // namespace

void bench_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                std::uint64_t seed, const BenchTiming& timing, const CaseProgress& progress,
                BenchResults& results) {
  const std::unique_ptr<CheckedArms> checked =
      check_arms(record, flags, device, seed, progress, results);
  if (checked == nullptr) return;
  const Site& site = checked->site;
  std::vector<Arm>& arms = checked->arms;
  std::vector<Arm*> gated, waiting;
  for (Arm& arm : arms) {
    const bool waits = !site.on_host() && waits_for_device(arm.result.run.strategy);
    (waits ? waiting : gated).push_back(&arm);
  }
  if (timing.sustained) {
    time_sustained_arms(gated, checked->tensors.staged(), site, *timing.sustained, progress);
    for (const Arm* arm : waiting) {
      results.skipped.push_back({place_of(record) + ", " + arm->result.run.implementation,
                                 "it waits for the device, so that it has no work without a gap"});
    }
  } else {
    time_arms(gated, checked->tensors.staged(), site, timing.samples, TimerGate::closed);
    time_arms(waiting, checked->tensors.staged(), site, timing.samples, TimerGate::open);
  }
  std::vector<RunCase*> same;
  same.reserve(arms.size());
  for (Arm& arm : arms) same.push_back(&arm.result.run);
  set_grouped(same);
  for (Arm& arm : arms) {
    if (arm.result.run.samples > 0) results.cases.push_back(std::move(arm.result));
  }
}

void profile_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                  std::uint64_t seed, const ProfileHook& ranged, BenchResults& results) {
  // The check has loaded libraries and kernels, so a range holds the product alone.
  const std::unique_ptr<CheckedArms> checked = check_arms(
      record, flags, device, seed, [](Strategy, double) {}, results);
  if (checked == nullptr) return;
  for (Arm& arm : checked->arms) {
    const std::string range = "moesaic case " + std::to_string(results.cases.size());
    {
      const ProfileRange mark(range, device.device);
      arm.gemm->execute(checked->tensors.staged(), arm.workspace.get(), checked->site.stream());
    }
    synchronize(checked->site.stream());
    ranged(range, arm.result);
    results.cases.push_back(std::move(arm.result));
  }
}

}  // namespace moesaic::cli
