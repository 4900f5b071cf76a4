// SPDX-License-Identifier: Apache-2.0
// Result rows, schema moesaic.bench/1, written and read back.
#include <array>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "bench.hpp"
#include "bench_json.hpp"
#include "moesaic/build_info.hpp"
#include "operands.hpp"
#include "stats.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "moesaic.bench/1";

Json cpu_json() {
  const CpuInfo cpu = cpu_info();
  return {
      {"kind", "cpu"}, {"name", cpu.model}, {"threads", cpu.threads}, {"features", cpu.features}};
}

Json device_json(const BenchSetting& setting) {
  const DeviceInfo& device = setting.device;
  if (device.device.kind == DeviceKind::cpu) return cpu_json();
  const DeviceCircumstances& around = setting.circumstances;
  Json json = {{"kind", "cuda"},
               {"name", device.name},
               {"cc", device.compute_capability},
               {"sms", device.num_sms},
               {"l2_bytes", device.l2_bytes},
               {"driver", around.driver},
               {"ecc", around.ecc},
               {"power_limit_w", around.power_limit_w},
               {"peak", nullptr}};
  if (const planner::DeviceModel* peak = peak_model(device); peak != nullptr) {
    json["peak"] = {{"bf16_flops_per_second", peak->bf16_flops_per_second.value},
                    {"bf16_source", peak->bf16_flops_per_second.source},
                    {"dram_bytes_per_second", peak->dram_bytes_per_second.value},
                    {"dram_source", peak->dram_bytes_per_second.source}};
  }
  return json;
}

Json clocks_json(const TelemetrySummary& clocks) {
  if (clocks.samples == 0) return nullptr;
  return {{"samples", clocks.samples},
          {"sm_mhz", {{"min", clocks.sm_mhz_min}, {"median", clocks.sm_mhz_median}}},
          {"mem_mhz", clocks.mem_mhz},
          {"temp_c", clocks.temp_c},
          {"power_w", clocks.power_w},
          {"throttled", clocks.throttled()},
          {"throttle_reasons", throttle_reasons(clocks.reasons)}};
}

/// Of a row of the SwiGLU layer.
Json layer_json(const BenchCase& one) {
  Json json = {{"pass", name(one.run.pass)},
               {"strategy", name(one.problem.strategy)},
               {"dtype", dtype_word(one.problem.format)},
               {"d", one.run.d},
               {"h", one.run.h},
               {"experts", one.problem.num_experts},
               {"max_rows", one.problem.max_rows},
               {"order", name(one.run.order)},
               {"activations", name(one.run.activations)},
               {"tail", name(one.problem.tail)}};
  if (one.run.x_rows != XRows::in_order) {
    json["x_rows"] = name(one.run.x_rows);
    json["tokens"] = one.run.tokens;
  }
  if (one.problem.strategy == Strategy::padded_bmm) {
    json["capacity"] = to_string(one.problem.capacity);
  }
  return json;
}

/// What makes two rows the same case, with the routing.
Json problem_json(const BenchCase& one) {
  const GroupedGemmProblem& problem = one.problem;
  if (one.run.pass == RunPass::mlp) return layer_json(one);
  Json json = {{"pass", name(problem.pass)},
               {"proj", name(one.run.projection)},
               {"strategy", name(problem.strategy)},
               {"dtype", dtype_word(problem.format)},
               {"d_dtype", moesaic::name(problem.d_dtype)},
               {"d", one.run.d},
               {"h", one.run.h},
               {"experts", problem.num_experts},
               {"max_rows", problem.max_rows},
               {"n", problem.n},
               {"k", problem.k},
               {"weights", name(problem.weights)},
               {"tail", name(problem.tail)}};
  if (one.run.named) json["implementation"] = one.run.implementation;  // beside the chosen one
  // Another capacity is another product for this strategy alone.
  if (problem.strategy == Strategy::padded_bmm) json["capacity"] = to_string(problem.capacity);
  return json;
}

Json routing_json(const BenchCase& one) {
  const planner::LoadMetrics load = planner::measure_load(one.counts);
  return {{"name", one.run.source},
          {"seed", one.seed},
          {"label", one.run.label},
          {"layer", one.run.layer},
          {"step", one.run.step},
          {"rank", one.run.rank < 0 ? Json(nullptr) : Json(one.run.rank)},
          {"experts", load.experts},
          {"rows", load.useful_rows},
          {"active_experts", load.active_experts},
          {"max_rows", load.max_rows},
          {"effective_experts", load.effective_experts},
          {"offs", end_offsets(one.counts)}};
}

Regime regime_of(const BenchCase& one) {
  return one.sustained ? Regime::sustained : Regime::short_burst;
}

Json timing_json(const BenchCase& one) {
  const std::vector<double>& samples = one.samples_seconds;
  Json json = {{"regime", name(regime_of(one))}, {"gated", one.gated},
               {"warm_ups", one.warm_ups},       {"samples", samples.size()},
               {"median_s", one.run.seconds},    {"p05_s", one.run.p05_seconds},
               {"p95_s", one.run.p95_seconds},   {"min_s", quantile(samples, 0)},
               {"unsteady", one.run.unsteady()}};
  if (one.sustained) {
    json["pilot_s"] = one.sustained->regions.pilot_seconds;
    json["conditioning_s"] = one.sustained->regions.conditioning_seconds;
    json["measured_s"] = one.sustained->regions.measured_seconds;
    json["calls_per_sample"] = one.sustained->calls_per_sample;
    json["late_units"] = one.sustained->late;
  }
  if (one.run.pass == RunPass::mlp) {
    json["forward_median_s"] = one.run.forward_seconds;
    json["backward_median_s"] = one.run.backward_seconds;
  }
  return json;
}

Json derived_json(const BenchCase& one, const DeviceInfo& device) {
  const double roofline = roofline_fraction(one, device);
  Json json = {{"tflops_useful", one.run.useful_tflops()},
               {"tflops_physical", one.run.physical_tflops()},
               {"padding_fraction", one.run.padding_fraction},
               {"overflow_rows", one.run.overflow_rows},
               {"roofline_fraction", roofline > 0 ? Json(roofline) : Json(nullptr)},
               {"ratio_to_base", nullptr}};
  if (one.base_seconds > 0) json["ratio_to_base"] = one.ratio_to_base();
  return json;
}

/// What rows of one case have in common, whatever was added to the schema beside it.
std::string key_of(const Json& device_name, const Json& problem, const Json& offs,
                   std::string_view regime, double conditioning_seconds) {
  // Seconds of other regions are those of another clock.
  const std::string regions = format(" %.4g", conditioning_seconds);
  return (device_name.dump() + problem.dump() + offs.dump()).append(regime) + regions;
}

bool has_passed(const Json& row) {
  const Json check = row.value("check", Json());
  return !check.is_object() || check.value("mismatches", Json(0)) == 0;
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

nlohmann::ordered_json bench_json(const BenchCase& one, const BenchSetting& setting) {
  const BuildInfo build = build_info();
  nlohmann::ordered_json row = {
      {"schema", kSchema},
      {"date", utc_now()},
      {"git", {{"sha", build.git_sha}, {"dirty", build.git_dirty}}},
      {"command", setting.command},
      {"device", device_json(setting)},
      {"toolchain",
       {{"compiler", build.compiler},
        {"build_type", build.build_type},
        {"onednn", build.onednn_version},
        {"cuda", setting.circumstances.runtime}}},
      {"clocks", clocks_json(one.clocks)},
      {"problem", problem_json(one)},
      {"routing", routing_json(one)},
      {"implementation", one.run.implementation},
      {"regimes", one.regimes},
      {"timing", timing_json(one)},
      {"work",
       {{"useful_flops", one.run.useful_flops},
        {"executed_flops", one.run.executed_flops},
        {"min_bytes", one.min_bytes}}},
      {"derived", derived_json(one, setting.device)},
      {"check",
       {{"reference", "sums in double precision, sampled rows of every expert"},
        {"worst_element", one.run.check.worst},
        {"elements", one.run.check.elements},
        {"mismatches", one.run.check.mismatches}}}};
  if (one.run.pass == RunPass::mlp) row["memory"] = memory_json(one.run.memory);
  return row;
}

nlohmann::ordered_json memory_json(const MlpMemory& memory) {
  return {{"saved_bytes", memory.saved_bytes},
          {"forward_scratch_bytes", memory.forward_scratch_bytes},
          {"backward_scratch_bytes", memory.backward_scratch_bytes},
          {"peak_bytes", memory.peak_bytes()}};
}

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string bench_row(const BenchCase& one, const BenchSetting& setting) {
  return json_line(bench_json(one, setting));
}

std::string range_row(const std::string& range, const BenchCase& one, const BenchSetting& setting) {
  return json_line({{"schema", "moesaic.profile_range/1"},
                    {"range", range},
                    {"device", device_json(setting).at("name")},
                    {"implementation", one.run.implementation},
                    {"problem", problem_json(one)},
                    {"offs", end_offsets(one.counts)}});
}

BenchBase::BenchBase(const std::string& path) {
  std::ifstream file(path);
  if (!file) refuse("--compare", "a file of rows that can be read", path);
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const Json row = Json::parse(line, nullptr, false);
    const std::string place = "--compare: " + path + " line " + std::to_string(number);
    if (row.is_discarded() && line.front() == '{') {
      warnings_.push_back(place + ": skipped, a row that was cut off");
      continue;
    }
    if (!row.is_object() || row.value("schema", Json()) != kSchema) {
      refuse(place, std::string("a JSON object of schema ") + kSchema, line.substr(0, 40));
    }
    const Json device = row.value("device", Json::object()), timing = row.value("timing", Json()),
               routing = row.value("routing", Json());
    if (!device.is_object() || !timing.is_object() || !timing.contains("median_s") ||
        !timing["median_s"].is_number() || timing["median_s"].get<double>() <= 0) {
      refuse(place, "a row with timing.median_s above 0", line.substr(0, 40));
    }
    const Json regime = timing.value("regime", Json(name(Regime::short_burst)));
    if (!regime.is_string()) refuse(place, "a row whose timing.regime is a word", regime.dump());
    const Json offs = routing.is_object() ? routing.value("offs", Json()) : Json();
    if (!has_passed(row)) {
      warnings_.push_back(place + ": skipped, a row whose check failed");
      continue;
    }
    const Json conditioning = timing.value("conditioning_s", Json(0.0));
    rows_.push_back({key_of(device.value("name", Json()), row.value("problem", Json()), offs,
                            regime.get<std::string>(),
                            conditioning.is_number() ? conditioning.get<double>() : 0),
                     {timing["median_s"].get<double>(), timing.value("unsteady", Json()) == true}});
  }
  if (rows_.empty()) refuse("--compare", "at least one row", path + ", which has none");
}

std::optional<BenchBase::Found> BenchBase::find(const BenchCase& one,
                                                const DeviceInfo& device) const {
  const double conditioning = one.sustained ? one.sustained->regions.conditioning_seconds : 0;
  const std::string key = key_of(device.name, problem_json(one), end_offsets(one.counts),
                                 name(regime_of(one)), conditioning);
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
    if (row->key == key) return row->found;
  }
  return std::nullopt;
}

}  // namespace moesaic::cli
