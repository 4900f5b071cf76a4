// SPDX-License-Identifier: Apache-2.0
// See choose.hpp.

#include "backends/cuda/launch/choose.hpp"

#include <algorithm>
#include <limits>
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

bool matches(const KernelConfig& config, const GroupedGemmProblem& problem) {
  const bool wgrad = problem.pass == Pass::wgrad;
  const bool f32_out = problem.d_dtype == DType::f32;
  return config.wgrad == wgrad && config.f32_out == f32_out &&
         (wgrad || config.b_mn_major == b_is_mn_major(problem));
}

/// Cycles of the busiest SM when rows are balanced: whole waves of tiles, 4,096 BF16 FLOP per
/// cycle, plus an epilogue. The larger tile moves fewer bytes per FLOP and sustains 3 % more
/// (NB-0002).
double modelled_cycles(const KernelConfig& config, const GroupedGemmProblem& problem, int num_sms) {
  constexpr double kFlopsPerCycle = 4096;
  constexpr double kEpilogueCyclesPerElement = 0.04;
  const double tile_elements = static_cast<double>(config.tile_m) * config.tile_n;
  const double gain = config.tile_m * config.tile_n >= 256 * 192 ? 1.03 : 1.0;
  std::int64_t tiles = 0;
  double contraction = 0;
  if (config.wgrad) {
    tiles = problem.num_experts * math::ceil_div<std::int64_t>(problem.n, config.tile_m) *
            math::ceil_div<std::int64_t>(problem.k, config.tile_n);
    contraction = static_cast<double>(problem.max_rows) / problem.num_experts;
  } else {
    const std::int64_t mean = math::ceil_div<std::int64_t>(problem.max_rows, problem.num_experts);
    tiles = problem.num_experts * math::ceil_div<std::int64_t>(mean, config.tile_m) *
            math::ceil_div<std::int64_t>(output_width(problem), config.tile_n);
    contraction = static_cast<double>(problem.pass == Pass::forward ? problem.k : problem.n);
  }
  const auto waves = static_cast<double>(math::ceil_div<std::int64_t>(tiles, num_sms));
  return waves * tile_elements *
         (2 * contraction / (kFlopsPerCycle * gain) + kEpilogueCyclesPerElement);
}

}  // namespace

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
                                                 192)
          : math::local_tiles_fit<std::int32_t>(problem.max_rows, output_width(problem), 128, 192);
  if (!fits) {
    return {false, "its tiles would not fit 32-bit indices"};
  }
  return {true, {}};
}

const Instance& choose_instance(const GroupedGemmProblem& problem, int num_sms) {
  const Instance* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Instance& instance : kInstances) {
    if (!matches(instance.config, problem)) {
      continue;
    }
    const double cycles = modelled_cycles(instance.config, problem, num_sms);
    if (cycles < least) {
      least = cycles;
      best = &instance;
    }
  }
  return *best;  // every pass, storage and output type has an instance
}

}  // namespace moesaic::backends::cuda::launch
