// SPDX-License-Identifier: Apache-2.0
// Checks and times the arms of one case.
#include "experiment/case_run.hpp"

#include <algorithm>
#include <utility>

#include "machine.hpp"
#include "moesaic/error.hpp"
#include "sustained.hpp"
#include "text.hpp"
#include "turns.hpp"

namespace moesaic::cli::experiment {
namespace {

void require_room(const Case& one, const Workbench& bench) {
  const double bytes = operand_bytes(one, bench.site());
  double available = available_memory_bytes();
  if (available <= 0) return;
  available += bench.held_bytes();
  if (bytes <= available) return;
  throw Error(ErrorCode::invalid_argument,
              "case " + one.key + ": expected operands that fit into the " + byte_count(available) +
                  " of memory available, got a case that needs " + byte_count(bytes) +
                  "; --protocol reduced needs less");
}

/// The arms that can run here and pass their check.
std::vector<ArmCall> checked_calls(const Task& task, const CourseSite& at, const CaseHooks& hooks,
                                   CaseTrouble& trouble) {
  std::vector<ArmCall> calls;
  for (const Arm arm : task.arms) {
    hooks.begins(arm);
    try {
      ArmCall call = make_call(arm, *task.one, at.bench);
      at.account.charge(&Spent::prepare);
      call.result.run.check = call.check();
      at.account.charge(&Spent::check);
      if (call.result.run.check.mismatches > 0) {
        trouble.wrong.push_back(std::move(call.result.run));
      } else {
        calls.push_back(std::move(call));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      trouble.skipped.push_back({std::string(name(arm)), error.what()});
    }
  }
  return calls;
}

TimedArm finished(ArmCall&& call, const Timing& timing, const Site& site) {
  TimedArm timed;
  timed.arm = call.arm;
  timed.regular = call.regular;
  timed.result = std::move(call.result);
  timed.result.warm_ups = warm_ups_on(site.on_host(), timing.warm_ups);
  timed.result.gated = timing.regime == Regime::short_burst && !site.on_host() && !call.waits;
  return timed;
}

void time_bursts(std::vector<ArmCall*>& calls, const Timing& timing, const CourseSite& at,
                 TimerGate gate, const CaseHooks& hooks) {
  const Site& site = at.bench.site();
  std::vector<std::function<void()>> work;
  work.reserve(calls.size());
  for (const ArmCall* call : calls) work.push_back(call->execute);
  const std::int64_t warm_ups = warm_ups_on(site.on_host(), timing.warm_ups);
  TurnTimes times = time_in_turns(site, work, {warm_ups, timing.samples}, gate);
  at.account.charge(&Spent::timing);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    TimedArm timed = finished(std::move(*calls[i]), timing, site);
    timed.result.samples_seconds = std::move(times.samples_seconds[i]);
    timed.result.clocks = times.clocks;
    set_times(timed.result.run, timed.result.samples_seconds, times.load);
    hooks.finished(timed);
    at.account.charge(&Spent::other);
  }
}

void time_one_by_one(std::vector<ArmCall>& calls, const Timing& timing, const CourseSite& at,
                     const CaseHooks& hooks) {
  const Site& site = at.bench.site();
  for (ArmCall& call : calls) {
    if (hooks.stop()) return;
    hooks.begins(call.arm);
    SustainedTimes times = time_sustained(site, call.execute, timing.regions, timing.warm_ups);
    at.account.charge(&Spent::timing);
    TimedArm timed = finished(std::move(call), timing, site);
    timed.result.samples_seconds = std::move(times.samples_seconds);
    timed.result.clocks = summarize(times.looks, times.why_no_looks);
    timed.result.sustained = {timing.regions, times.calls_per_sample, times.late};
    timed.looks = std::move(times.looks);
    set_times(timed.result.run, timed.result.samples_seconds, times.load);
    hooks.finished(timed);
    at.account.charge(&Spent::other);
  }
}

}  // namespace

void run_task(const Task& task, const Design& design, const CourseSite& at, const CaseHooks& hooks,
              CaseTrouble& trouble) {
  require_room(*task.one, at.bench);
  at.bench.prepare(*task.one);
  at.account.charge(&Spent::prepare);
  std::vector<ArmCall> calls = checked_calls(task, at, hooks, trouble);
  if (design.timing.regime == Regime::sustained) {
    time_one_by_one(calls, design.timing, at, hooks);
    return;
  }
  std::vector<ArmCall*> gated, waiting;
  for (ArmCall& call : calls) (call.waits ? waiting : gated).push_back(&call);
  time_bursts(gated, design.timing, at, TimerGate::closed, hooks);
  time_bursts(waiting, design.timing, at, TimerGate::open, hooks);
}

}  // namespace moesaic::cli::experiment
