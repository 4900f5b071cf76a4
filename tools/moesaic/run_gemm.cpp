// SPDX-License-Identifier: Apache-2.0
// One record through the grouped product by every strategy: operands once, output poisoned before
// each.
#include <algorithm>
#include <utility>

#include "gemm_operands.hpp"
#include "machine.hpp"
#include "operands.hpp"
#include "run.hpp"

namespace moesaic::cli {
namespace {

/// Checks the first execute, then times more of them.
void measure(const PlannedGemm& plan, GemmTensors& tensors, const Site& site, std::uint64_t seed,
             const CaseProgress& progress, RunCase& result) {
  const SiteWorkspace workspace(plan.gemm.workspace_bytes(), site.stream());
  result.check = execute_and_check(plan.gemm, tensors, workspace, site, seed);
  progress(plan.strategy, kCheckedShare);
  if (result.rows == 0) return;
  const GroupedGemmArgs args = tensors.staged();
  const CpuLoadMeter meter;
  const std::vector<double> samples =
      time_steps(site, plan.strategy,
                 {[&] { plan.gemm.execute(args, workspace.get(), site.stream()); }})
          .front();
  set_times(result, samples, meter.stop());
}

}  // namespace

void run_gemm(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
              std::uint64_t seed, const CaseProgress& progress, RunResults& results) {
  end_offsets(record.counts);  // refuses rows past int32 before the problem is looked at
  const GroupedGemmProblem problem =
      gemm_problem(flags, static_cast<std::int64_t>(record.counts.size()), record.rows());
  const std::vector<PlannedGemm> planned = plan_strategies(record, flags, device, problem, results);
  if (planned.empty()) return;
  require_memory(memory_need(problem, planned, device));
  GemmTensors tensors = make_operands(problem, record, seed);
  const Site site(device.device);
  tensors.stage_inputs(site);
  const std::int64_t flops_per_row = 2 * problem.n * problem.k;
  const std::size_t before = results.cases.size();
  for (const PlannedGemm& plan : planned) {
    progress(plan.strategy, 0);
    RunCase result = describe_case(record, flags, device, plan.strategy);
    result.implementation = plan.gemm.implementation();
    result.useful_flops = result.rows * flops_per_row;
    result.executed_flops = executed_rows(record, flags, result) * flops_per_row;
    measure(plan, tensors, site, seed, progress, result);
    results.cases.push_back(std::move(result));
  }
  std::vector<RunCase*> same;
  for (std::size_t i = before; i < results.cases.size(); ++i) same.push_back(&results.cases[i]);
  set_grouped(same);
}

}  // namespace moesaic::cli
