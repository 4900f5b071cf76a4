// SPDX-License-Identifier: Apache-2.0
// Checks and times the strategies of one SwiGLU layer side by side, a step at a time: with U kept,
// and with U computed again where that is asked for; and where rows of x lie anywhere, read there
// and copied.
#include <algorithm>
#include <deque>
#include <utility>

#include "bench.hpp"
#include "machine.hpp"
#include "mlp_operands.hpp"
#include "operands.hpp"
#include "turns.hpp"

namespace moesaic::cli {
namespace {

/// One strategy and mode of the comparison, ready to run.
struct MlpArm {
  const PlannedMlp* plan;
  SiteWorkspace workspace;
  BenchCase result;
};

BenchCase describe(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                   const PlannedMlp& plan, std::uint64_t seed) {
  BenchCase one;
  one.problem = gemm_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
  one.problem.strategy = plan.strategy;
  one.counts = record.counts;
  one.seed = seed;
  one.run = describe_mlp(record, flags, device, plan);
  one.min_bytes = min_bytes(plan.mlp.problem(), one.counts);
  if (one.run.x_rows != XRows::in_order) {  // x is as short as it has tokens
    const std::int64_t element = plan.mlp.problem().format == Format::bf16 ? 2 : 4;
    one.min_bytes -= element * (record.rows() - one.run.tokens) * one.run.d;
  }
  return one;
}

/// Times the arms of one gate, forward and backward apart, and fills in their results.
void time_arms(std::span<MlpArm*> arms, const MlpTensors& tensors, const Site& site,
               std::int64_t samples, TimerGate gate) {
  const std::int64_t warm_ups = warm_ups_on(site.on_host(), kGpuWarmUps);
  std::deque<MlpStep> steps;
  std::vector<std::function<void()>> calls;
  for (const MlpArm* arm : arms) {
    const MlpStep& step = steps.emplace_back(*arm->plan, tensors, arm->workspace, site);
    calls.emplace_back([&step] { step.forward(); });
    calls.emplace_back([&step] { step.backward(); });
  }
  const TurnTimes times = time_in_turns(site, calls, {warm_ups, samples}, gate);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    BenchCase& result = arms[i]->result;
    const std::vector<double>& forward = times.samples_seconds[2 * i];
    const std::vector<double>& backward = times.samples_seconds[2 * i + 1];
    set_step_times(result.run, forward, backward, times.load);
    result.samples_seconds.resize(forward.size());
    for (std::size_t sample = 0; sample < forward.size(); ++sample) {
      result.samples_seconds[sample] = forward[sample] + backward[sample];
    }
    result.clocks = times.clocks;
    result.warm_ups = warm_ups;
    result.gated = !site.on_host() && gate == TimerGate::closed;
  }
}

/// Rows in order, or those of tokens: read where they lie by what can, which is never a baseline,
/// and copied by all.
std::vector<RunFlags> modes_of(const RunFlags& flags) {
  std::vector<RunFlags> modes;
  for (const bool recompute : {false, true}) {
    if (recompute && !flags.recompute) continue;
    RunFlags mode = flags;
    mode.recompute = recompute;
    if (flags.x_rows != XRows::in_order) {
      const std::vector<Strategy>& all = flags.strategies;
      if (std::find(all.begin(), all.end(), Strategy::grouped) != all.end()) {
        mode.strategies = {Strategy::grouped};
        modes.push_back(mode);
      }
      mode.strategies = all;
      mode.x_rows = XRows::copied;
    }
    modes.push_back(std::move(mode));
  }
  return modes;
}

std::vector<PlannedMlp> plan_modes(const routing::Record& record, const RunFlags& flags,
                                   const DeviceInfo& device, BenchResults& results) {
  std::vector<PlannedMlp> all;
  RunResults planning;
  for (const RunFlags& mode : modes_of(flags)) {
    const ExpertMlpProblem problem =
        mlp_problem(mode, static_cast<std::int64_t>(record.counts.size()), record.rows());
    for (PlannedMlp& plan : plan_mlps(record, mode, device, problem, planning)) {
      if (mode.x_rows == XRows::indexed && plan.mlp.copies_x()) {
        planning.skipped.push_back(
            {place_of(record) + ", indexed " + std::string(name(plan.strategy)),
             plan.mlp.implementation() + " copies rows that are not in order: see copied"});
      } else {
        all.push_back(std::move(plan));
      }
    }
  }
  results.skipped.insert(results.skipped.end(), planning.skipped.begin(), planning.skipped.end());
  return all;
}

}  // namespace

std::int64_t min_bytes(const ExpertMlpProblem& problem, std::span<const std::int64_t> counts) {
  const std::int64_t element = problem.format == Format::bf16 ? 2 : 4;
  std::int64_t rows = 0, active = 0;
  for (const std::int64_t count : counts) {
    rows += count;
    active += count > 0 ? 1 : 0;
  }
  const std::int64_t weights = 3 * problem.d * problem.h;
  // x, dy, y, dx; weights; their gradients, those of empty experts too.
  return element * (4 * rows * problem.d + active * weights) +
         size_bytes(problem.wgrad_dtype) * problem.num_experts * weights;
}

void bench_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
               std::uint64_t seed, const BenchTiming& timing, const CaseProgress& progress,
               BenchResults& results) {
  end_offsets(record.counts);  // refuses rows past int32 before the problem is looked at
  const std::vector<PlannedMlp> planned = plan_modes(record, flags, device, results);
  if (planned.empty()) return;
  const ExpertMlpProblem& problem = planned.front().mlp.problem();
  require_memory(memory_need(problem, planned));
  MlpTensors tensors = make_mlp_tensors(problem, planned, record, flags, seed);
  const Site site(device.device);
  std::vector<MlpArm> arms;
  for (const PlannedMlp& plan : planned) {
    progress(plan.strategy, 0);
    MlpArm arm{&plan, SiteWorkspace(plan.workspace_bytes(), site.stream()),
               describe(record, flags, device, plan, seed)};
    arm.result.run.check = step_and_check(plan, tensors, arm.workspace, site, seed);
    if (keep_checked(record, arm.result, results)) arms.push_back(std::move(arm));
  }
  std::vector<MlpArm*> gated, waiting;
  for (MlpArm& arm : arms) {
    const bool waits = !site.on_host() && waits_for_device(arm.result.run.strategy);
    (waits ? waiting : gated).push_back(&arm);
  }
  time_arms(gated, tensors, site, timing.samples, TimerGate::closed);
  time_arms(waiting, tensors, site, timing.samples, TimerGate::open);
  // Where rows are copied too, grouped stands last for that: what it is to be compared with.
  for (const Activations mode : {Activations::save, Activations::recompute}) {
    std::vector<RunCase*> same;
    for (MlpArm& arm : arms) {
      if (arm.result.run.activations == mode) same.push_back(&arm.result.run);
    }
    set_grouped(same);
  }
  for (MlpArm& arm : arms) results.cases.push_back(std::move(arm.result));
}

}  // namespace moesaic::cli
