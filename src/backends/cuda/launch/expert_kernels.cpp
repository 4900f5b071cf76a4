// SPDX-License-Identifier: Apache-2.0
// See expert_kernels.hpp.

#include "backends/cuda/launch/expert_kernels.hpp"

#include <stdexcept>

#include "backends/cuda/launch/choose.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

template <class Wanted>
const Instance* first_instance(const Wanted& wanted) {
  for (const Instance& instance : kInstances) {
    if (wanted(instance.config)) {
      return &instance;
    }
  }
  throw std::logic_error("first_instance: no kernel is what an expert wants");
}

/// Whether the kernel of up and gate that is called so is in pairs; none for another name.
std::optional<bool> named_pairs(const std::string& implementation, bool gathers, int num_sms) {
  for (const Instance& instance : kInstances) {
    const KernelConfig& config = instance.config;
    if (config.epilogue == Epilogue::swiglu && config.gather == gathers &&
        config.worker_ctas() <= num_sms && implementation_name(instance) == implementation) {
      return config.pair;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ExpertKernels> ExpertKernels::choose(
    const ExpertMlpProblem& problem, const DeviceInfo& device,
    const std::optional<std::string>& implementation) {
  std::optional<bool> pairs;
  if (implementation) {
    pairs = named_pairs(*implementation, problem.x_rows == XRows::indexed, device.num_sms);
    if (!pairs) {
      return std::nullopt;
    }
  }
  return ExpertKernels(problem, device.num_sms, pairs);
}

ExpertKernels::ExpertKernels(const ExpertMlpProblem& problem, int num_sms,
                             std::optional<bool> pairs)
    : pairs_(pairs) {
  const bool gathers = problem.x_rows == XRows::indexed;
  const bool pair = pairs.value_or(pairs_pay(problem.max_rows, problem.num_experts, num_sms));
  up_gate = first_instance([&](const KernelConfig& config) {
    return config.epilogue == Epilogue::swiglu && config.gather == gathers &&
           config.pair == (pair && !gathers);
  });
  down_gradient = first_instance([&](const KernelConfig& config) {
    return config.epilogue == Epilogue::dswiglu && config.pair == pair;
  });
  weighted_down = first_instance([](const KernelConfig& config) { return config.row_weights; });
  up_gate_wgrad = first_instance([&](const KernelConfig& config) {
    return config.wgrad && config.gather && config.f32_out == (problem.wgrad_dtype == DType::f32);
  });
}

std::optional<std::string> ExpertKernels::product(const GroupedGemmProblem& gemm) const {
  if (!pairs_) {
    return std::nullopt;  // a plan takes what suits
  }
  for (const Instance& instance : kInstances) {
    if (*pairs_ && instance.config.pair && matches(instance, gemm)) {
      return implementation_name(instance);
    }
  }
  return implementation_name(choose_instance(gemm));
}

}  // namespace moesaic::backends::cuda::launch
