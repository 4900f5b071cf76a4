// SPDX-License-Identifier: Apache-2.0
// One record through the SwiGLU layer, forward and backward, by every strategy. y, dx, dw_up_gate
// and dw_down are all checked.
#include <utility>

#include "mlp_operands.hpp"
#include "operands.hpp"
#include "run.hpp"

namespace moesaic::cli {
namespace {

/// Checks the first step, then times more of them; a sample is one forward and one backward.
void measure(const PlannedMlp& plan, MlpTensors& tensors, const Site& site, std::uint64_t seed,
             const CaseProgress& progress, RunCase& result) {
  const SiteWorkspace workspace(plan.workspace_bytes(), site.stream());
  result.check = step_and_check(plan, tensors, workspace, site, seed);
  progress(plan.strategy, kCheckedShare);
  if (result.rows == 0) return;
  const MlpStep step(plan, tensors, workspace, site);
  const CpuLoadMeter meter;
  const std::vector<std::vector<double>> halves =
      time_steps(site, plan.strategy, {[&] { step.forward(); }, [&] { step.backward(); }});
  set_step_times(result, halves[0], halves[1], meter.stop());
}

}  // namespace

void run_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
             std::uint64_t seed, const CaseProgress& progress, RunResults& results) {
  end_offsets(record.counts);  // refuses rows past int32 before the problem is looked at
  const ExpertMlpProblem problem =
      mlp_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
  const std::vector<PlannedMlp> planned = plan_mlps(record, flags, device, problem, results);
  if (planned.empty()) return;
  require_memory(memory_need(problem, planned));
  MlpTensors tensors = make_mlp_tensors(problem, planned, record, flags, seed);
  const Site site(device.device);
  const std::size_t before = results.cases.size();
  for (const PlannedMlp& plan : planned) {
    progress(plan.strategy, 0);
    RunCase result = describe_mlp(record, flags, device, plan);
    measure(plan, tensors, site, seed, progress, result);
    results.cases.push_back(std::move(result));
  }
  std::vector<RunCase*> same;
  for (std::size_t i = before; i < results.cases.size(); ++i) same.push_back(&results.cases[i]);
  set_grouped(same);
}

}  // namespace moesaic::cli
