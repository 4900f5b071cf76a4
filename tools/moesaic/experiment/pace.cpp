// SPDX-License-Identifier: Apache-2.0
// About how long cases take.
#include "experiment/pace.hpp"

#include <algorithm>
#include <thread>

#include "bench.hpp"
#include "gemm_operands.hpp"
#include "moesaic/batched_gemm.hpp"
#include "operands.hpp"
#include "stats.hpp"

namespace moesaic::cli::experiment {
namespace {

// Orders of magnitude: a plan says "about", and a run corrects itself by the cases behind it; it
// prints what each part took beside them. Of a GPU's host: fig40 beside one H200, 32 processors.
constexpr double kReachedShare = 0.7;      // of a preset's peaks
constexpr double kTermsPerThread = 1.3e9;  // products in double precision a second
constexpr double kDrawsPerThread = 1e8;    // normal numbers a second, into new memory
constexpr double kUploadPerSecond = 6e9;   // bytes, from pageable memory
constexpr double kFetchSeconds = 2e-5;     // one row from a device
constexpr double kHostBytesPerSecond = 1e10;
constexpr double kArmSeconds = 1e-3;       // planning, a workspace
constexpr double kRowSeconds = 3e-4;       // describing and writing it
constexpr double kBurstSeconds = 5e-3;     // gates and looks at clocks around samples
constexpr double kCudaStartSeconds = 0.4;  // driver, context, kernels
constexpr double kHostStartSeconds = 0.02;
constexpr double kUnitMargin = 1.05;       // units of a region beyond those that it needs
constexpr std::int64_t kHostThreads = 16;  // beside a GPU that is not here
constexpr std::int64_t kCheckedRows = CheckOptions{}.rows_per_expert;

std::int64_t host_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

/// FLOP/s of one small dense product on this CPU.
double measured_flops(const DeviceInfo& device) {
  static constexpr std::int64_t kWidth = 512;
  static constexpr double kFallback = 1e10;  // without a library of dense products
  try {
    const BatchedGemm gemm =
        BatchedGemm::plan({.batch = 1, .m = kWidth, .n = kWidth, .k = kWidth}, device);
    HostTensor a(DType::bf16, {1, kWidth, kWidth}), w(DType::bf16, {1, kWidth, kWidth}),
        d(DType::bf16, {1, kWidth, kWidth});
    fill_normal(a, kActivationScale, 1, OperandStream::x);
    fill_normal(w, kWeightScale, 1, OperandStream::weights);
    const SiteWorkspace workspace(gemm.workspace_bytes(), Stream::cpu());
    const auto call = [&] {
      gemm.execute({a.view(), w.view(), d.view()}, workspace.get(), Stream::cpu());
    };
    call();  // compiles
    const double seconds = std::min(time_once(call), time_once(call));
    return 2.0 * kWidth * kWidth * kWidth / seconds;
  } catch (const Error&) {
    return kFallback;
  }
}

double elements(std::int64_t rows, std::int64_t width) {
  return static_cast<double>(rows) * static_cast<double>(width);
}

/// The rows of a result that a check compares, and the experts that share them out to threads.
struct LookedAt {
  std::int64_t rows = 0, experts = 0, width = 0;
};

LookedAt looked_at(const Case& one, Arm arm) {
  LookedAt at{0, 0, one.product().n};
  if (arm == Arm::dense) {
    if (one.dense == DenseControl::joined) at.width *= one.experts();
    return {kCheckedRows, 1, at.width};
  }
  for (const std::int64_t count : one.record.counts) {
    at.rows += std::min(count, kCheckedRows);
    at.experts += count > 0 ? 1 : 0;
  }
  return at;
}

/// One execute, by the roofline.
double call_seconds(const Case& one, Arm arm, const Pace& pace) {
  const planner::ProductShape size = one.product();
  const double padding = arm == Arm::padded_bmm ? Capacity{}.factor() : 1;
  const double bytes =
      2 * (elements(one.record.rows(), size.n + size.k) + elements(one.experts() * size.n, size.k));
  return std::max(padding * one.useful_flops() / pace.flops_per_second,
                  bytes / pace.bytes_per_second);
}

double check_seconds(const Case& one, Arm arm, const Pace& pace) {
  const planner::ProductShape size = one.product();
  const LookedAt at = looked_at(one, arm);
  const auto threads = static_cast<double>(std::clamp<std::int64_t>(at.experts, 1, pace.threads));
  const double sums = elements(at.rows, at.width) * static_cast<double>(size.k);
  const double result_bytes = 2 * elements(one.record.rows(), size.n);
  return call_seconds(one, arm, pace) + sums / (kTermsPerThread * threads) +
         2 * result_bytes / pace.bytes_per_second +  // poisoned, looked through
         (pace.host ? 0 : static_cast<double>(at.rows) * kFetchSeconds);
}

double timing_seconds(const Case& one, Arm arm, const Timing& timing, const Pace& pace) {
  const double call = call_seconds(one, arm, pace);
  if (timing.regime == Regime::sustained) {
    const double regions = timing.regions.pilot_seconds + timing.regions.conditioning_seconds +
                           timing.regions.measured_seconds;
    return kUnitMargin * regions + static_cast<double>(timing.warm_ups + 1) * call;
  }
  const std::int64_t warm_ups = warm_ups_on(pace.host, timing.warm_ups);
  return static_cast<double>(warm_ups + timing.samples) * call + (pace.host ? 0 : kBurstSeconds);
}

}  // namespace

Pace preset_pace(const std::string& preset) {
  const planner::DeviceModel& model = planner::device_preset(preset);
  return {.of = model.name + ", by its preset",
          .flops_per_second = kReachedShare * model.bf16_flops_per_second.value,
          .bytes_per_second = kReachedShare * model.dram_bytes_per_second.value,
          .threads = kHostThreads};
}

Pace device_pace(const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) {
    return {.of = "this CPU, by a small product",
            .flops_per_second = measured_flops(device),
            .bytes_per_second = kHostBytesPerSecond,
            .host = true,
            .threads = host_threads()};
  }
  const planner::DeviceModel* model = peak_model(device);
  Pace pace = preset_pace(model == nullptr ? "h200" : model->name);
  pace.threads = host_threads();
  return pace;
}

Spent start_seconds(const Pace& pace) {
  return {.start = pace.host ? kHostStartSeconds : kCudaStartSeconds};
}

Spent arm_seconds(const Case& one, Arm arm, const Timing& timing, const Pace& pace) {
  Spent expected{.prepare = kArmSeconds,
                 .check = check_seconds(one, arm, pace),
                 .timing = timing_seconds(one, arm, timing, pace),
                 .other = kRowSeconds};
  if (arm == Arm::padded_bmm && one.padded == PaddedBatch::prefilled) {
    expected.prepare +=
        2 * 2 * elements(one.record.rows(), one.product().k) / pace.bytes_per_second;
  }
  return expected;
}

Spent operand_seconds(const Case& one, const RowsToDraw& missing, const Pace& pace) {
  const double drawn = elements(missing.x + missing.w, one.product().k);
  const double uploaded = pace.host ? 0 : 2 * drawn / kUploadPerSecond;
  return {.prepare = drawn / (kDrawsPerThread * static_cast<double>(pace.threads)) + uploaded};
}

}  // namespace moesaic::cli::experiment
