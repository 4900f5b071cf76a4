// SPDX-License-Identifier: Apache-2.0
// Which compiled kernels an expert's products take: arithmetic on the problem's sizes, no device
// needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/backend.hpp"
#include "backends/cuda/launch/instances.hpp"

namespace moesaic::backends::cuda::launch {

/// Each is in pairs of CTAs where that pays; where `implementation` names the kernel of up and
/// gate, all that have both kinds are as it is. Rows that are gathered, or that have weights, are
/// never in pairs.
class ExpertKernels {
 public:
  /// None where no kernel of up and gate that takes such a problem has the name.
  static std::optional<ExpertKernels> choose(const ExpertMlpProblem& problem,
                                             const DeviceInfo& device,
                                             const std::optional<std::string>& implementation);

  /// See FusedExpert::product.
  [[nodiscard]] std::optional<std::string> product(const GroupedGemmProblem& gemm) const;

  const Instance* up_gate = nullptr;
  const Instance* down_gradient = nullptr;
  const Instance* weighted_down = nullptr;
  const Instance* up_gate_wgrad = nullptr;  ///< With XRows::indexed.

 private:
  ExpertKernels(const ExpertMlpProblem& problem, int num_sms, std::optional<bool> pairs);

  std::optional<bool> pairs_;  // all or none, by name
};

}  // namespace moesaic::backends::cuda::launch
