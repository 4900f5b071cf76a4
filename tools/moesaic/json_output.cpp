// SPDX-License-Identifier: Apache-2.0
// JSON text of every verb.
#include "json_output.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "bench_json.hpp"
#include "plan_text.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

using Json = nlohmann::ordered_json;

/// File names need not be UTF-8; JSON must be.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json rank_json(std::int64_t rank) { return rank < 0 ? Json(nullptr) : Json(rank); }

Json mismatch_json(const CheckResult& check) {
  if (!check.first) return nullptr;
  const Mismatch& first = *check.first;
  return {{"tensor", first.tensor},
          {"expert", first.expert},
          {"row", first.row},
          {"column", first.column},
          {"got", number_or_null(first.got)},
          {"want", number_or_null(first.want)}};
}

}  // namespace

std::string plan_layer_json(const routing::Record& record, const planner::LayerPlan& plan) {
  Json tiles = Json::array();
  for (const planner::TileLedger& tile : plan.tiles) {
    tiles.push_back({{"tile", tile.tile},
                     {"padded_rows", tile.padded_rows},
                     {"padding_rows", tile.padding_rows},
                     {"padding_fraction", tile.padding_fraction}});
  }
  Json cost = nullptr, suggested_tile = nullptr, kernel_s = nullptr, verdict = nullptr;
  if (plan.suggested) {
    const planner::CostTerms& terms = plan.costs[*plan.suggested];
    cost = {{"mma_s", terms.mma_s},
            {"weight_s", terms.weight_s},
            {"launch_s", terms.launch_s},
            {"communication_s", terms.communication_s}};
    suggested_tile = terms.tile;
    kernel_s = terms.kernel_s();
  }
  if (plan.roofline) {
    planner::Evidence evidence;
    evidence.summed = record.aggregation == routing::Aggregation::summed;
    verdict = name(planner::judge_layer(plan, evidence).recommendation);
  }
  const planner::LoadMetrics& load = plan.load;
  const planner::CapacityLedger& capacity = plan.capacity;
  return dump({{"source", record.source},
               {"layer", record.layer},
               {"step", record.step},
               {"rank", rank_json(record.rank)},
               {"aggregation", routing::to_string(record.aggregation)},
               {"dense", plan.dense()},
               {"experts", load.experts},
               {"invalid_slots", record.invalid_slots},
               {"useful_rows", load.useful_rows},
               {"active_experts", load.active_experts},
               {"effective_experts", load.effective_experts},
               {"i_h", load.i_h},
               {"i_max", load.i_max},
               {"max_rows", load.max_rows},
               {"tiles", std::move(tiles)},
               {"capacity",
                {{"rule", name(capacity.rule.rule)},
                 {"factor", printed_factor(capacity.rule)},
                 {"capacity", capacity.capacity},
                 {"rho_pad", capacity.rho_pad},
                 {"overflow_rows", capacity.overflow_rows}}},
               {"offsets", plan.offsets},
               {"cost", std::move(cost)},
               {"label", record.label},
               {"suggested_tile", std::move(suggested_tile)},
               {"kernel_s", std::move(kernel_s)},
               {"roofline_s", plan.roofline ? Json(plan.roofline->bound_s) : Json(nullptr)},
               {"device", plan.roofline ? Json(plan.device) : Json(nullptr)},
               {"verdict", std::move(verdict)}});
}

std::string run_json(const std::vector<RunCase>& cases) {
  Json list = Json::array();
  for (const RunCase& one : cases) {
    Json json = {{"source", one.source},
                 {"layer", one.layer},
                 {"step", one.step},
                 {"experts", one.experts},
                 {"rows", one.rows},
                 {"pass", name(one.pass)},
                 {"proj", name(one.projection)},
                 {"strategy", name(one.strategy)},
                 {"backend", one.backend},
                 {"dtype", dtype_word(one.format)},
                 {"d", one.d},
                 {"h", one.h},
                 {"useful_flops", one.useful_flops},
                 {"executed_flops", one.executed_flops},
                 {"padding_fraction", one.padding_fraction},
                 {"overflow_rows", one.overflow_rows},
                 {"seconds", one.seconds},
                 {"useful_tflops", one.useful_tflops()},
                 {"check",
                  {{"elements", one.check.elements},
                   {"mismatches", one.check.mismatches},
                   {"worst", number_or_null(one.check.worst)}}},
                 {"rank", rank_json(one.rank)},
                 {"implementation", one.implementation},
                 {"samples", one.samples},
                 {"physical_tflops", one.physical_tflops()},
                 {"label", one.label},
                 {"p05_seconds", one.p05_seconds},
                 {"p95_seconds", one.p95_seconds},
                 {"unsteady", one.unsteady()}};
    if (one.pass == RunPass::mlp) {
      json["order"] = name(one.order);
      json["activations"] = name(one.activations);
      json["forward_seconds"] = one.forward_seconds;
      json["backward_seconds"] = one.backward_seconds;
      json["memory"] = memory_json(one.memory);
    }
    list.push_back(std::move(json));
  }
  return dump({{"cases", std::move(list)}}) + '\n';
}

std::string verify_json(const VerifyReport& report) {
  Json groups = Json::array();
  for (const GroupReport& group : report.groups) {
    groups.push_back({{"group", group.name},
                      {"what", group.what},
                      {"cases", group.cases},
                      {"failed_cases", group.failed_cases},
                      {"elements", group.elements},
                      {"mismatches", group.mismatches},
                      {"worst", number_or_null(group.worst)}});
  }
  Json failures = Json::array();
  for (const FailedCase& failed : report.failures) {
    failures.push_back({{"case", failed.name},
                        {"mismatches", failed.outcome.check.mismatches},
                        {"first", mismatch_json(failed.outcome.check)},
                        {"failure", failed.outcome.failure},
                        {"reproduce", report.reproduce(failed.name)}});
  }
  return dump({{"ok", report.ok()},
               {"device", report.device},
               {"seed", report.seed},
               {"groups", std::move(groups)},
               {"failures", std::move(failures)},
               {"skipped", report.skipped}}) +
         '\n';
}

std::string info_json(const InfoReport& report) {
  Json backends = Json::array();
  for (const BackendStatus& backend : report.backends) {
    backends.push_back({{"name", backend.name}, {"ok", backend.ok}, {"detail", backend.detail}});
  }
  Json devices = Json::array();
  for (const DeviceInfo& device : report.devices.devices) {
    devices.push_back({{"device", to_string(device.device)},
                       {"name", device.name},
                       {"compute_capability", device.compute_capability},
                       {"num_sms", device.num_sms},
                       {"l2_bytes", device.l2_bytes}});
  }
  Json implementations = Json::array();
  for (const InfoReport::Row& row : report.implementations) {
    implementations.push_back({{"pass", row.pass},
                               {"dtype", row.dtype},
                               {"strategy", row.strategy},
                               {"device", row.device},
                               {"implementation", row.implementation},
                               {"ok", row.support.ok},
                               {"reason", row.support.reason}});
  }
  const BuildInfo& build = report.build;
  return dump({{"version", build.version},
               {"git", {{"sha", build.git_sha}, {"dirty", build.git_dirty}}},
               {"compiler", build.compiler},
               {"build_type", build.build_type},
               {"onednn_version", build.onednn_version},
               {"cuda_built", build.has_cuda},
               {"nvshmem_built", build.has_nvshmem},
               {"cpu",
                {{"model", report.cpu.model},
                 {"threads", report.cpu.threads},
                 {"features", report.cpu.features}}},
               {"backends", std::move(backends)},
               {"devices", std::move(devices)},
               {"why_no_cuda", report.devices.why_no_cuda},
               {"implementations", std::move(implementations)}}) +
         '\n';
}

}  // namespace moesaic::cli
