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

// Orders of magnitude: a plan says "about", and a run corrects itself by the cases behind it.
constexpr double kReachedShare = 0.7;         // of a preset's peaks
constexpr double kCheckFlopsPerThread = 5e8;  // sums in double precision
constexpr double kDrawsPerThread = 5e7;       // normal numbers a second
constexpr double kCopyBytesPerSecond = 5e9;   // pageable memory to a device and back
constexpr double kCaseSeconds = 0.01;         // planning, allocation, launch
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

double elements(const Case& one, std::int64_t width) {
  return static_cast<double>(one.record.rows()) * static_cast<double>(width);
}

}  // namespace

Pace preset_pace(const std::string& preset) {
  const planner::DeviceModel& model = planner::device_preset(preset);
  return {.of = model.name + ", by its preset",
          .flops_per_second = kReachedShare * model.bf16_flops_per_second.value,
          .bytes_per_second = kReachedShare * model.dram_bytes_per_second.value,
          .threads = host_threads()};
}

Pace device_pace(const DeviceInfo& device) {
  static constexpr double kHostBytesPerSecond = 1e10;
  if (device.device.kind == DeviceKind::cpu) {
    return {.of = "this CPU, by a small product",
            .flops_per_second = measured_flops(device),
            .bytes_per_second = kHostBytesPerSecond,
            .host = true,
            .threads = host_threads()};
  }
  const planner::DeviceModel* model = peak_model(device);
  return preset_pace(model == nullptr ? "h200" : model->name);
}

double arm_seconds(const Case& one, Arm arm, const Timing& timing, const Pace& pace) {
  const planner::ProductShape size = one.product();
  const auto n = static_cast<double>(size.n), k = static_cast<double>(size.k);
  const auto experts = static_cast<double>(one.experts());
  const double padding = arm == Arm::padded_bmm ? Capacity{}.factor() : 1;
  const double bytes = 2 * (elements(one, size.n + size.k) + experts * n * k);
  const double call =
      std::max(padding * one.useful_flops() / pace.flops_per_second, bytes / pace.bytes_per_second);
  const double checked = 2 * static_cast<double>(kCheckedRows) * experts * n * k;
  double seconds =
      kCaseSeconds + call + checked / (kCheckFlopsPerThread * static_cast<double>(pace.threads));
  if (!pace.host) seconds += 2 * 2 * elements(one, size.n) / kCopyBytesPerSecond;
  if (timing.regime == Regime::sustained) {
    return seconds + timing.pilot_seconds + timing.conditioning_seconds + timing.measured_seconds +
           2 * std::max(timing.unit_seconds, call);
  }
  const std::int64_t warm_ups =
      pace.host ? std::min(timing.warm_ups, kCpuWarmUps) : timing.warm_ups;
  return seconds + static_cast<double>(warm_ups + timing.samples) * call;
}

double operand_seconds(const Case& one, const Pace& pace) {
  const planner::ProductShape size = one.product();
  const double drawn = elements(one, size.k) + static_cast<double>(one.experts() * size.n * size.k);
  const double copied = pace.host ? 0 : 2 * drawn / kCopyBytesPerSecond;
  return drawn / (kDrawsPerThread * static_cast<double>(pace.threads)) + copied;
}

bool same_operands(const Case& before, const Case& next) {
  return before.record.rows() == next.record.rows() && before.experts() == next.experts() &&
         before.product().n == next.product().n && before.product().k == next.product().k &&
         before.expert_rows == next.expert_rows;
}

}  // namespace moesaic::cli::experiment
