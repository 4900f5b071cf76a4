// SPDX-License-Identifier: Apache-2.0
// Operands of the SwiGLU layer that a record describes, dense and seeded, and every strategy's plan
// for it: what `run` and `bench` share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "machine.hpp"
#include "mlp_tensors.hpp"
#include "run.hpp"

namespace moesaic::cli {

struct PlannedMlp {
  Strategy strategy;
  ExpertMlp mlp;
  /// Forward and backward may share one.
  [[nodiscard]] std::size_t workspace_bytes() const;
  [[nodiscard]] MlpMemory memory() const;
};

/// Plans every strategy of `flags` first, as plan_strategies does.
std::vector<PlannedMlp> plan_mlps(const routing::Record& record, const RunFlags& flags,
                                  const DeviceInfo& device, ExpertMlpProblem problem,
                                  RunResults& results);

/// Host bytes that operands, gradients and the largest workspace take; U where a plan keeps it.
MemoryNeed memory_need(const ExpertMlpProblem& problem, std::span<const PlannedMlp> planned);

/// Normal activations and weights; results are not written. U is there where a plan keeps it, and
/// which row of x each row is where x is not in order.
MlpTensors make_mlp_tensors(const ExpertMlpProblem& problem, std::span<const PlannedMlp> planned,
                            const routing::Record& record, const RunFlags& flags,
                            std::uint64_t seed);

/// A plan on tensors where they have been staged.
class MlpStep {
 public:
  MlpStep(const PlannedMlp& plan, const MlpTensors& tensors, const SiteWorkspace& workspace,
          const Site& site)
      : plan_(plan), tensors_(tensors), workspace_(workspace), site_(site) {}
  void forward() const;
  void backward() const;

 private:
  [[nodiscard]] bool keeps_u() const {
    return plan_.mlp.problem().activations == Activations::save;
  }
  const PlannedMlp& plan_;
  const MlpTensors& tensors_;
  const SiteWorkspace& workspace_;
  const Site& site_;
};

/// Poisons what is written, runs a step, brings it back and compares sampled rows of every expert.
/// @returns what was compared of y, dx, dw_up_gate and dw_down.
CheckResult step_and_check(const PlannedMlp& plan, MlpTensors& tensors,
                           const SiteWorkspace& workspace, const Site& site, std::uint64_t seed);

/// Fills in what is known of a case before it runs. FLOPs are of forward and backward together.
RunCase describe_mlp(const routing::Record& record, const RunFlags& flags, const DeviceInfo& device,
                     const PlannedMlp& plan);

/// A step's samples: forward and backward of the same round, added up.
void set_step_times(RunCase& result, const std::vector<double>& forward_seconds,
                    const std::vector<double>& backward_seconds, const CpuLoad& load);

}  // namespace moesaic::cli
