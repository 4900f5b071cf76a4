// SPDX-License-Identifier: Apache-2.0
// See choose.hpp.

#include "backends/cuda/launch/choose.hpp"

#include <string>

#include "math/integer.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

constexpr std::int64_t kMaxWidth = std::int64_t{1} << 30;

bool b_is_mn_major(const GroupedGemmProblem& problem) {
  return (problem.pass == Pass::forward) != (problem.weights == WeightStorage::enk);
}

/// Columns of d: N of forward, K of dgrad.
std::int64_t output_width(const GroupedGemmProblem& problem) {
  return problem.pass == Pass::forward ? problem.n : problem.k;
}

}  // namespace

bool matches(const Instance& instance, const GroupedGemmProblem& problem, int num_sms) {
  const KernelConfig& config = instance.config;
  const bool wgrad = problem.pass == Pass::wgrad;
  const bool f32_out = problem.d_dtype == DType::f32;
  return config.wgrad == wgrad && config.f32_out == f32_out && config.cluster <= num_sms &&
         (wgrad || config.b_mn_major == b_is_mn_major(problem));
}

Support supports_grouped(const PlanRequest& request, Strategy strategy) {
  const GroupedGemmProblem& problem = request.problem;
  if (request.device.compute_capability != 90) {
    return {false, "its kernels are compiled for compute capability 9.0, this device has " +
                       std::to_string(request.device.compute_capability / 10) + "." +
                       std::to_string(request.device.compute_capability % 10)};
  }
  if (problem.strategy != strategy) {
    return {false, "it computes strategy " + std::string(name(strategy)) + ", not " +
                       std::string(name(problem.strategy))};
  }
  if (problem.format != Format::bf16) {
    return {false, "it multiplies bf16, not " + std::string(name(problem.format))};
  }
  if (problem.num_experts > kMaxExperts) {
    return {false, "it takes at most " + std::to_string(kMaxExperts) + " experts, not " +
                       std::to_string(problem.num_experts)};
  }
  if (problem.max_rows >= kRaggedRows || problem.n > kMaxWidth || problem.k > kMaxWidth) {
    return {false, "it takes fewer than 2^30 rows and widths up to 2^30"};
  }
  const bool fits =
      problem.pass == Pass::wgrad
          ? math::weight_tiles_fit<std::int32_t>(problem.num_experts, problem.n, problem.k, 128,
                                                 256)
          : math::local_tiles_fit<std::int32_t>(problem.max_rows, output_width(problem), 64, 128);
  if (!fits) {
    return {false, "its tiles would not fit 32-bit indices"};
  }
  return {true, {}};
}

const Instance& choose_instance(const GroupedGemmProblem& problem, int num_sms) {
  // Rows per expert decide, as if they were balanced: the host knows no more. NB-0003.
  constexpr std::int64_t kFewRows = 64;  // weights stream: small units, deep ring
  constexpr std::int64_t kPairRows =
      4096;  // a pair of CTAs pays off from here on where b is MN-major
  const std::int64_t mean = math::ceil_div<std::int64_t>(problem.max_rows, problem.num_experts);
  const auto preferred = [&](const KernelConfig& config) {
    if (mean <= kFewRows) {
      return config.tile_m == 64;
    }
    return config.tile_m > 64 && (config.cluster > 1) == (mean >= kPairRows);
  };
  const Instance* found = nullptr;
  for (const Instance& instance : kInstances) {
    if (!matches(instance, problem, num_sms)) {
      continue;
    }
    if (preferred(instance.config)) {
      return instance;
    }
    if (found == nullptr || instance.config.tile_m > found->config.tile_m) {
      found = &instance;  // the large tile without a pair serves everything else
    }
  }
  return *found;
}

}  // namespace moesaic::backends::cuda::launch
