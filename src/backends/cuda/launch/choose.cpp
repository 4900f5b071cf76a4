// SPDX-License-Identifier: Apache-2.0
// See choose.hpp.

#include "backends/cuda/launch/choose.hpp"

#include <stdexcept>
#include <string>

#include "math/integer.hpp"
#include "math/tile_bounds.hpp"
#include "math/tile_scheduler.hpp"
#include "math/weight_tile_scheduler.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

bool b_is_mn_major(const GroupedGemmProblem& problem) {
  return (problem.pass == Pass::forward) != (problem.weights == WeightStorage::enk);
}

/// Columns of d: N of forward, K of dgrad.
std::int64_t output_width(const GroupedGemmProblem& problem) {
  return problem.pass == Pass::forward ? problem.n : problem.k;
}

/// Whether a kernel's 32-bit tile indices hold the problem, also where wrong offsets make segments
/// overlap.
bool indices_fit(const KernelConfig& config, const GroupedGemmProblem& problem) {
  if (config.wgrad) {
    const bool enk = problem.weights == WeightStorage::enk;
    return math::weight_tiles_fit<std::int32_t>(problem.num_experts, enk ? problem.n : problem.k,
                                                enk ? problem.k : problem.n, config.tile_m,
                                                config.tile_n);
  }
  return math::local_tiles_fit<std::int32_t>(problem.max_rows, output_width(problem), config.tile_m,
                                             config.tile_n) &&
         math::row_tile_prefix_fits_int32(problem.max_rows, problem.num_experts, config.tile_m);
}

/// What all kernels ask of sizes and device.
Support supports_sizes(Format format, int num_experts, std::int64_t max_rows,
                       const DeviceInfo& device) {
  if (device.compute_capability != 90) {
    return {false, "its kernels are compiled for compute capability 9.0, this device has " +
                       std::to_string(device.compute_capability / 10) + "." +
                       std::to_string(device.compute_capability % 10)};
  }
  if (format != Format::bf16) {
    return {false, "it multiplies bf16, not " + std::string(name(format))};
  }
  if (num_experts > kMaxExperts) {
    return {false, "it takes at most " + std::to_string(kMaxExperts) + " experts, not " +
                       std::to_string(num_experts)};
  }
  if (device.num_sms > kMaxCtas) {
    return {false, "it takes at most " + std::to_string(kMaxCtas) + " SMs, not " +
                       std::to_string(device.num_sms)};
  }
  if (max_rows >= kRaggedRows) {
    return {false, "it takes fewer than 2^30 rows, not " + std::to_string(max_rows)};
  }
  return {true, {}};
}

/// Whether an instance that matches may be taken unnamed.
Support suits(const Instance& instance, const GroupedGemmProblem& problem, int num_sms) {
  if (instance.config.pair && !pairs_pay(problem.max_rows, problem.num_experts, num_sms)) {
    return {false, "its pairs of CTAs are for " + std::to_string(kRowsForPairs) +
                       " rows per expert or more, not " +
                       std::to_string(problem.max_rows / problem.num_experts) + ", unless named"};
  }
  return {true, {}};
}

}  // namespace

Support matches(const Instance& instance, const GroupedGemmProblem& problem) {
  const KernelConfig& config = instance.config;
  const bool wgrad = problem.pass == Pass::wgrad;
  if (!is_product(config)) {
    return {false, "it computes a part of the SwiGLU expert"};
  }
  if (config.wgrad != wgrad) {
    return {false, config.wgrad ? "it computes wgrad" : "it computes forward and dgrad"};
  }
  if (config.f32_out != (problem.d_dtype == DType::f32)) {
    return {false, config.f32_out ? "it writes f32" : "it writes bf16"};
  }
  if (!wgrad && config.b_mn_major != b_is_mn_major(problem)) {
    return {false, config.b_mn_major ? "it reads weights whose contraction is strided"
                                     : "it reads weights whose contraction is contiguous"};
  }
  if (!indices_fit(config, problem)) {
    return {false, "its tiles would not fit 32-bit indices"};
  }
  return {true, {}};
}

Support supports_grouped(const PlanRequest& request, Strategy strategy) {
  const GroupedGemmProblem& problem = request.problem;
  if (problem.strategy != strategy) {
    return {false, "it computes strategy " + std::string(name(strategy)) + ", not " +
                       std::string(name(problem.strategy))};
  }
  Support sizes =
      supports_sizes(problem.format, problem.num_experts, problem.max_rows, request.device);
  if (!sizes) {
    return sizes;
  }
  for (const Instance& instance : kInstances) {
    if (takes(instance, request)) {
      return {true, {}};
    }
  }
  return {false, "no kernel's 32-bit tile indices hold " + std::to_string(problem.num_experts) +
                     " experts of " + std::to_string(problem.max_rows) + " rows at these widths"};
}

Support supports_expert(const ExpertMlpProblem& problem, const DeviceInfo& device) {
  if (problem.strategy != Strategy::grouped) {
    return {false, "it computes strategy grouped, not " + std::string(name(problem.strategy))};
  }
  Support sizes = supports_sizes(problem.format, problem.num_experts, problem.max_rows, device);
  if (!sizes) {
    return sizes;
  }
  const KernelConfig config;  // all kernels have the same tiles
  if (!math::local_tiles_fit<std::int32_t>(problem.max_rows, paired_width(problem.h), config.tile_m,
                                           config.tile_n) ||
      !math::local_tiles_fit<std::int32_t>(problem.max_rows, problem.d, config.tile_m,
                                           config.tile_n) ||
      !math::row_tile_prefix_fits_int32(problem.max_rows, problem.num_experts, config.tile_m) ||
      !math::weight_tiles_fit<std::int32_t>(problem.num_experts, 2 * problem.h, problem.d,
                                            config.tile_m, config.tile_n)) {
    return {false, "its tiles would not fit 32-bit indices"};
  }
  return {true, {}};
}

Support takes(const Instance& instance, const PlanRequest& request) {
  Support match = matches(instance, request.problem);
  if (match && instance.config.pair && request.device.num_sms < 2) {
    return {false, "it needs 2 SMs or more for a pair of CTAs, not " +
                       std::to_string(request.device.num_sms)};
  }
  if (!match || request.options.implementation == implementation_name(instance)) {
    return match;
  }
  return suits(instance, request.problem, request.device.num_sms);
}

const Instance& choose_instance(const GroupedGemmProblem& problem) {
  for (const Instance& instance : kInstances) {
    if (matches(instance, problem) && suits(instance, problem, 1)) {
      return instance;
    }
  }
  throw std::logic_error("choose_instance: expected a problem that supports_grouped() takes");
}

bool pairs_pay(std::int64_t max_rows, int num_experts, int num_sms) {
  return num_sms >= 2 && max_rows >= kRowsForPairs * num_experts;
}

std::string_view regime_of(const KernelConfig& config, std::int64_t rows) {
  if (config.wgrad || rows <= 0) {
    return {};
  }
  static_assert(kFewRows == 64 && kFewColumns == 128);
  const auto grid = math::row_tile_grid<std::int32_t>(1, rows, 0, config.row_shape());
  const math::RowRange segment{0, rows};
  if (grid.m_tiles(segment) == 0) {
    return "64x128";
  }
  const bool whole = grid.few_tiles(segment) == 0;
  if (config.pair) {
    return whole ? "2x128x256" : "2x128x256+64x128";
  }
  return whole ? "128x256" : "128x256+64x128";
}

}  // namespace moesaic::backends::cuda::launch
