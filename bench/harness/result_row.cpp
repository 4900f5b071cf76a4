// SPDX-License-Identifier: Apache-2.0
// See result_row.hpp.

#include "harness/result_row.hpp"

#include <array>
#include <ctime>

#include "harness/host_tensor.hpp"
#include "moesaic/build_info.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::bench {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text.data(), size};
}

Json device_json() {
  const CpuInfo cpu = cpu_info();
  return {
      {"kind", "cpu"}, {"name", cpu.model}, {"threads", cpu.threads}, {"features", cpu.features}};
}

Json routing_json(const Routing& routing) {
  const planner::LoadMetrics load = planner::measure_load(routing.counts);
  return {{"name", routing.name},
          {"seed", routing.seed},
          {"experts", load.experts},
          {"rows", load.useful_rows},
          {"active_experts", load.active_experts},
          {"max_rows", load.max_rows},
          {"effective_experts", load.effective_experts},
          {"offs", end_offsets(routing.counts)}};
}

Json timing_json(const Measured& measured) {
  const std::vector<double>& samples = measured.samples_seconds;
  return {{"samples", samples.size()},
          {"median_s", quantile(samples, 0.5)},
          {"p05_s", quantile(samples, 0.05)},
          {"p95_s", quantile(samples, 0.95)},
          {"min_s", quantile(samples, 0)}};
}

Json derived_json(const Measured& measured) {
  Json ratio = nullptr;
  if (measured.ratio > 0) {
    ratio = {{"arm", measured.arm.ratio_to}, {"ratio", measured.ratio}};
  }
  Json tflops = nullptr;
  if (measured.arm.useful_flops > 0) {
    tflops = measured.arm.useful_flops / quantile(measured.samples_seconds, 0.5) * 1e-12;
  }
  return {{"tflops_useful", std::move(tflops)}, {"ratio_to", std::move(ratio)}};
}

}  // namespace

Json result_row(const Comparison& comparison, const Measured& measured,
                const std::string& command) {
  if (measured.check.elements == 0) {
    throw Error(ErrorCode::invalid_argument,
                comparison.name + "/" + measured.arm.name + ": expected a check, got none");
  }
  const BuildInfo build = build_info();
  Json row = {{"schema", "moesaic.bench/1"},
              {"date", utc_now()},
              {"git", {{"sha", build.git_sha}, {"dirty", build.git_dirty}}},
              {"command", command},
              {"device", device_json()},
              {"toolchain",
               {{"compiler", build.compiler},
                {"build_type", build.build_type},
                {"onednn", build.onednn_version}}},
              {"comparison", comparison.name},
              {"arm", measured.arm.name},
              {"problem", measured.arm.problem}};
  // A comparison over many histograms says in `problem` what they are.
  row["routing"] = comparison.routing.counts.empty()
                       ? Json{{"name", comparison.routing.name}, {"seed", comparison.routing.seed}}
                       : routing_json(comparison.routing);
  row["implementation"] = measured.arm.implementation;
  row["timing"] = timing_json(measured);
  row["work"] = {{"useful_flops", static_cast<std::int64_t>(measured.arm.useful_flops)},
                 {"executed_flops", static_cast<std::int64_t>(measured.arm.executed_flops)}};
  if (measured.memory.peak_bytes > 0) {
    row["memory"] = {{"peak_rss_bytes", measured.memory.peak_bytes},
                     {"floor_bytes", measured.memory.floor_bytes}};
  }
  row["derived"] = derived_json(measured);
  row["check"] = {{"reference", measured.arm.check_reference},
                  {"worst_element", measured.check.worst},
                  {"elements", measured.check.elements},
                  {"mismatches", measured.check.mismatches}};
  return row;
}

}  // namespace moesaic::bench
