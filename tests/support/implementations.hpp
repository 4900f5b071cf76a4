// SPDX-License-Identifier: Apache-2.0
// The implementations that can run on this CPU, and how to plan and execute one by name.
#pragma once

#include <string>
#include <vector>

#include "moesaic/device.hpp"
#include "moesaic/grouped_gemm.hpp"
#include "moesaic/workspace.hpp"
#include "support/grouped_run.hpp"

namespace moesaic::testing {

struct Implementation {
  std::string name;
  Strategy strategy;
};

inline const DeviceInfo& cpu() {
  static const DeviceInfo device = query_device(Device{});
  return device;
}

inline constexpr Strategy kAllStrategies[] = {Strategy::grouped, Strategy::padded_bmm,
                                              Strategy::host_loop};

/// Those that take a BF16 problem here.
inline std::vector<Implementation> runnable(const std::vector<Strategy>& strategies = {
                                                Strategy::grouped, Strategy::padded_bmm,
                                                Strategy::host_loop}) {
  std::vector<Implementation> all;
  for (const Strategy strategy : strategies) {
    GroupedGemmProblem problem = make_problem(Pass::forward, WeightStorage::enk, kBf16, 1, 8, 8, 8);
    problem.strategy = strategy;
    for (const Candidate& candidate : GroupedGemm::candidates(problem, cpu())) {
      if (candidate.support) {
        all.push_back({candidate.implementation, strategy});
      }
    }
  }
  return all;
}

/// For names of parametrized tests: letters, digits and underscores.
inline std::string test_name(std::string text) {
  for (char& letter : text) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9');
    if (!plain) {
      letter = '_';
    }
  }
  return text;
}

inline GroupedGemm plan(GroupedGemmProblem problem, const Implementation& implementation,
                        PlanOptions options = {}) {
  problem.strategy = implementation.strategy;
  options.implementation = implementation.name;
  return GroupedGemm::plan(problem, cpu(), options);
}

/// Plans and executes once; returns the fault record.
inline DeviceFault execute(GroupedRun& run, const Implementation& implementation,
                           const PlanOptions& options = {}) {
  const GroupedGemm gemm = plan(run.problem, implementation, options);
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(run.args(), workspace.get(), Stream::cpu());
  return read_fault(workspace.get(), Stream::cpu());
}

}  // namespace moesaic::testing
