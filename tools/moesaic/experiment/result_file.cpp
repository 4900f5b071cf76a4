// SPDX-License-Identifier: Apache-2.0
// Rows of experiments read back.
#include "experiment/result_file.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include "experiment/statistics.hpp"
#include "moesaic/build_info.hpp"
#include "moesaic/device_telemetry.hpp"
#include "moesaic/error.hpp"
#include "report/field.hpp"
#include "report/row_check.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

using Json = nlohmann::ordered_json;

std::string factor_words(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The mean of a list that may hold nulls; 0 when there is none.
double mean_of(const Json& list) {
  std::vector<double> values;
  for (const Json& value : list) {
    if (value.is_number()) values.push_back(value.get<double>());
  }
  return values.empty() ? 0 : mean(values);
}

/// NVML's bit of the software power cap (nvmlClocksEventReasonSwPowerCap).
constexpr std::uint64_t kPowerCap = 0x4;

void check_flag(const Json& json, const report::RowCheck& check, const std::string& path) {
  const Json* value = report::field(json, path);
  if (value == nullptr || !value->is_boolean()) check.refuse_field(path, "true or false");
}

void check_list(const Json& json, const report::RowCheck& check, const std::string& path) {
  const Json* value = report::field(json, path);
  if (value == nullptr || !value->is_array()) check.refuse_field(path, "a list");
}

void check_place(const report::RowCheck& check) {
  for (const char* path :
       {"experiment.name", "experiment.protocol", "experiment.case", "experiment.arm"}) {
    check.text(path);
  }
  check.whole("experiment.process", 0);
  check.whole("experiment.order", 0);
  check.object("experiment.factors");
}

void check_timed(const Json& json, const report::RowCheck& check) {
  check.text("device.name");
  check.text("git.sha");
  check.whole("problem.n", 1);
  check.whole("problem.k", 1);
  check_list(json, check, "routing.offs");
  check.offsets("routing.offs");
  check.positive("timing.mean_s");
  check_flag(json, check, "timing.unsteady");
  check.positive("work.useful_flops");
  check.positive("work.executed_flops");
  if (const Json* clocks = report::field(json, "clocks"); clocks == nullptr || !clocks->is_null()) {
    check_flag(json, check, "clocks.throttled");
    check.not_negative("clocks.sm_mhz.median");
  }
  if (const Json* looks = report::field(json, "telemetry");
      looks != nullptr && looks->is_object()) {
    for (const char* list : {"sm_mhz", "power_w", "reasons"}) {
      check_list(json, check, std::string("telemetry.") + list);
    }
    for (const Json& bits : looks->at("reasons")) {
      if (!bits.is_number_unsigned()) check.refuse_field("telemetry.reasons", "NVML's bits");
    }
  }
}

void read_telemetry(const Json& telemetry, StoredRow& row) {
  row.sm_mhz = mean_of(telemetry.at("sm_mhz"));
  row.power_w = mean_of(telemetry.at("power_w"));
  for (const Json& reasons : telemetry.at("reasons")) {
    const auto bits = reasons.get<std::uint64_t>();
    TelemetrySummary others;
    others.reasons = bits & ~kPowerCap;
    ++row.looks;
    row.power_capped += (bits & kPowerCap) != 0 ? 1 : 0;
    row.otherwise_limited += others.throttled() ? 1 : 0;
  }
}

void read_clocks(const Json& json, StoredRow& row) {
  if (const Json& clocks = json.at("clocks"); !clocks.is_null()) {
    row.throttled = clocks.at("throttled").get<bool>();
    row.sm_mhz = clocks.at("sm_mhz").at("median").get<double>();
    const double power = report::number(json, "clocks.power_w");
    row.power_w = power > 0 ? power : 0;
  }
  if (const Json telemetry = json.value("telemetry", Json()); telemetry.is_object()) {
    read_telemetry(telemetry, row);
  }
}

void read_timed(const Json& json, StoredRow& row) {
  row.device = json.at("device").at("name").get<std::string>();
  row.git_sha = json.at("git").at("sha").get<std::string>();
  row.n = json.at("problem").at("n").get<std::int64_t>();
  row.k = json.at("problem").at("k").get<std::int64_t>();
  row.seed = json.at("routing").at("seed").get<std::uint64_t>();
  std::int64_t begin = 0;
  for (const Json& end : json.at("routing").at("offs")) {
    row.counts.push_back(end.get<std::int64_t>() - begin);
    begin = end.get<std::int64_t>();
  }
  row.mean_seconds = json.at("timing").at("mean_s").get<double>();
  row.unsteady = json.at("timing").at("unsteady").get<bool>();
  row.useful_flops = json.at("work").at("useful_flops").get<double>();
  row.executed_flops = json.at("work").at("executed_flops").get<double>();
  read_clocks(json, row);
}

/// @throws Error{invalid_argument} naming the place and the field that is not as it should be.
StoredRow read_row(const Json& json, bool timed, const std::string& place) {
  const report::RowCheck check(json, place);
  check_place(check);
  if (timed) check_timed(json, check);
  const Json& experiment = json.at("experiment");
  StoredRow row;
  row.place = {experiment.at("name").get<std::string>(),
               experiment.at("protocol").get<std::string>(),
               experiment.at("case").get<std::string>(), experiment.at("arm").get<std::string>(),
               experiment.at("process").get<std::int64_t>()};
  row.order = experiment.at("order").get<std::int64_t>();
  for (const auto& [name, value] : experiment.at("factors").items()) {
    row.factors[name] = factor_words(value);
  }
  if (timed) read_timed(json, row);
  return row;
}

}  // namespace

std::string StoredRow::factor(const std::string& name) const {
  const auto found = factors.find(name);
  return found == factors.end() ? "" : found->second;
}

void ResultFile::add(const std::string& flag, const std::string& path) {
  path_ = path;
  std::ifstream file(path);
  std::string line;
  unchecked_ = 0;
  for (std::int64_t number = 1; file && std::getline(file, line); ++number) {
    if (line.empty()) continue;
    take(line, format("%s: %s:%lld", flag.c_str(), path.c_str(), static_cast<long long>(number)));
  }
  if (unchecked_ > 0) {
    warnings_.push_back(flag + ": " + path + ": " + std::to_string(unchecked_) +
                        " rows without a passed check are left out");
  }
}

void ResultFile::take(const std::string& line, const std::string& place) {
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() && line.front() == '{') {
    warnings_.push_back(place + ": left out, a row that was cut off");
    return;
  }
  const Json schema = json.is_object() ? json.value("schema", Json()) : Json();
  const bool timed = schema == "moesaic.bench/1";
  if (!timed && schema != "moesaic.roofline/1") {
    refuse(place, "a row of schema moesaic.bench/1 or moesaic.roofline/1", line.substr(0, 40));
  }
  if (!json.contains("experiment")) return;  // a row of bench
  StoredRow row = read_row(json, timed, place);
  if (timed && !report::has_clean_check(json)) {  // arithmetic needs no check
    ++unchecked_;
    return;
  }
  rows_.push_back(std::move(row));
  places_.insert(rows_.back().place);
}

void ResultFile::require_same(const Design& design, const std::string& device) {
  const std::string protocol(name(design.protocol)), sha = build_info().git_sha;
  std::map<std::string, const Case*> cases;
  for (const Case& one : design.cases) cases[one.key] = &one;
  const auto refuse_row = [&](const std::string& expected, const std::string& got) {
    refuse("--output", expected + ", since rows of two would be mixed (name another file)",
           path_ + ", which has rows of " + got);
  };
  std::int64_t other_commits = 0;
  for (const StoredRow& row : rows_) {
    if (row.place.experiment != design.name) continue;
    if (row.place.protocol != protocol) {
      refuse_row("rows of " + design.name + " under protocol " + protocol, row.place.protocol);
    }
    if (row.device != device) refuse_row("rows of " + device, row.device);
    const auto found = cases.find(row.place.key);
    if (found == cases.end()) {
      refuse_row("rows of this design of " + design.name, "another case, " + row.place.key);
    }
    const Case& one = *found->second;
    if (row.seed != design.seed) {
      refuse_row("rows of --seed " + std::to_string(design.seed),
                 "seed " + std::to_string(row.seed));
    }
    if (row.counts != one.record.counts || row.n != one.product().n || row.k != one.product().k) {
      refuse_row("rows of this design of " + design.name,
                 "case " + row.place.key + " with other rows or widths (another input or shape)");
    }
    other_commits += row.git_sha != sha ? 1 : 0;
  }
  if (other_commits > 0) {
    warnings_.push_back(path_ + ": " + std::to_string(other_commits) +
                        " rows are of another commit than this build; they are kept");
  }
}

}  // namespace moesaic::cli::experiment
