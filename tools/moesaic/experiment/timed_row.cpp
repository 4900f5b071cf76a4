// SPDX-License-Identifier: Apache-2.0
// Rows of timed experiments: those of bench, and what experiments add.
#include <nlohmann/json.hpp>

#include "bench_json.hpp"
#include "experiment/case_run.hpp"
#include "experiment/row_place.hpp"
#include "experiment/statistics.hpp"

namespace moesaic::cli::experiment {
namespace {

using Json = nlohmann::ordered_json;

Json telemetry_json(const std::vector<TelemetrySample>& looks) {
  static constexpr double kMilliseconds = 1000;
  if (looks.size() < 2) return nullptr;
  const double seconds = looks.back().at_seconds - looks.front().at_seconds;
  Json json = {{"interval_ms", kMilliseconds * seconds / static_cast<double>(looks.size() - 1)},
               {"sm_mhz", Json::array()},
               {"power_w", Json::array()},
               {"temp_c", Json::array()},
               {"reasons", Json::array()}};
  for (const TelemetrySample& look : looks) {
    json["sm_mhz"].push_back(look.sm_mhz);
    json["power_w"].push_back(look.power_w);
    json["temp_c"].push_back(look.temp_c);
    json["reasons"].push_back(look.reasons);
  }
  return json;
}

/// What an arm multiplies, where the problem of the grouped product does not say it.
void add_problem(const TimedArm& timed, const Case& one, Json& json) {
  json["strategy"] = name(timed.arm);
  if (timed.arm == Arm::padded_bmm) {
    json["batch"] = one.padded == PaddedBatch::prefilled ? "prefilled" : "copied";
  }
  if (timed.arm == Arm::dense) {
    json["weights_of"] = one.dense == DenseControl::joined ? "all_experts" : "first_expert";
  }
  if (timed.regular) {
    json["regular"] = {{"batch", timed.regular->batch},
                       {"m", timed.regular->m},
                       {"n", timed.regular->n},
                       {"k", timed.regular->k}};
  }
}

}  // namespace

std::string timed_row(const TimedArm& timed, const Task& task, const Design& design,
                      const BenchSetting& setting) {
  Json json = bench_json(timed.result, setting);
  add_problem(timed, *task.one, json["problem"]);
  json["timing"]["mean_s"] = mean(timed.result.samples_seconds);
  json["timing"]["samples_s"] = timed.result.samples_seconds;
  json["experiment"] =
      place_json(place_of(design, *task.one, timed.arm), task.order, task.one->factors);
  json["telemetry"] = telemetry_json(timed.looks);
  json["profile"] = nullptr;
  return json_line(json);
}

}  // namespace moesaic::cli::experiment
