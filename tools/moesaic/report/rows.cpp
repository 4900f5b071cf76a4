// SPDX-License-Identifier: Apache-2.0
// Rows of results, read line by line and checked against their schema.
#include <array>
#include <filesystem>
#include <fstream>

#include "regime.hpp"
#include "report/data.hpp"
#include "report/exchange_rows.hpp"
#include "report/field.hpp"
#include "report/row_check.hpp"
#include "text.hpp"

namespace moesaic::cli::report {
namespace {

constexpr std::array kExperiments = {"fig38", "fig71", "table44", "fig40",
                                     "fig72", "fig73", "fig2",    "skew"};

void check_experiment(const RowCheck& check) {
  static constexpr std::array kProtocols = {"full", "reduced"};
  static constexpr std::array kArms = {"grouped", "padded_bmm", "host_loop", "dense", "torch"};
  check.one_of("experiment.name", kExperiments);
  check.one_of("experiment.protocol", kProtocols);
  check.one_of("experiment.arm", kArms);
  check.text("experiment.case");
  check.object("experiment.factors");
}

void check_bench(const Json& row, const RowCheck& check) {
  static constexpr std::array kRegimes = {name(Regime::short_burst).data(),
                                          name(Regime::sustained).data()};
  check.text("device.name");
  check.text("git.sha");
  check.positive("timing.median_s");
  if (field(row, "timing.regime") != nullptr) check.one_of("timing.regime", kRegimes);
  if (field(row, "experiment") == nullptr) return;
  check_experiment(check);
  check.one_of("timing.regime", kRegimes);
  check.positive("timing.mean_s");
  check.positive("work.useful_flops");
}

void check_roofline(const Json& row, const RowCheck& check) {
  check_experiment(check);
  check.text("device_preset");
  check.object("shape");
  const Json* points = field(row, "points");
  if (points == nullptr || !points->is_array() || points->empty()) {
    check.refuse_field("points", "a list of points");
  }
  for (const Json& point : *points) {
    for (const char* name : {"tokens", "intensity", "bound_flops_per_second"}) {
      if (!(number(point, name) > 0)) {
        check.refuse_field("points", std::string("points with ") + name + " above 0");
      }
    }
  }
}

void check_compare(const RowCheck& check) {
  check.text("case");
  check.text("device.name");
  check.text("git.sha");
  check.positive("ratio");
}

/// A row shows that what it timed was right. Arithmetic needs no check.
bool passed(const Json& row) {
  if (row.value("schema", Json()) == "moesaic.roofline/1") return true;
  const Json* passed = field(row, "check.passed");
  if (passed != nullptr) return *passed == true;
  return has_clean_check(row);
}

std::string first_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line(4096, '\0');
  file.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(file.gcount()));
  return line.substr(0, line.find('\n'));
}

void check_row(const Json& row, const std::string& place) {
  static constexpr std::array kSchemas = {"moesaic.bench/1", "moesaic.compare/1",
                                          "moesaic.roofline/1", kBenchEpSchema, kEpArmSchema};
  const RowCheck check(row, place);
  check.one_of("schema", kSchemas);
  check.offsets("routing.offs");
  if (row["schema"] == kSchemas[0]) return check_bench(row, check);
  if (row["schema"] == kSchemas[1]) return check_compare(check);
  if (row["schema"] == kSchemas[2]) return check_roofline(row, check);
  check_exchange(row, check);
}

}  // namespace

bool looks_like_results(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (path.ends_with(".jsonl")) return true;
  const std::string line = first_line(path);
  for (const char* schema : {"moesaic.bench/", "moesaic.compare/", "moesaic.roofline/",
                             "moesaic.bench_ep/", "moesaic.ep_arm/"}) {
    if (line.find(schema) != std::string::npos) return true;
  }
  return false;
}

ResultFile read_results(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "a file of rows that can be read", "none");
  ResultFile result;
  result.name = path;
  std::string line;
  std::int64_t number = 0;
  while (std::getline(file, line)) {
    ++number;
    result.bytes += line.size() + (file.eof() ? 0 : 1);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = path + ":" + std::to_string(number);
    Json row = Json::parse(line, nullptr, false);
    if (row.is_discarded() && line.front() == '{' && line.back() != '}') {
      result.warnings.push_back(place + ": left out, a row that was cut off");
      continue;
    }
    if (!row.is_object()) refuse(place, "a JSON object", line.substr(0, 60));
    check_row(row, place);
    if (passed(row)) {
      result.rows.push_back(std::move(row));
    } else {
      ++result.unchecked;
    }
  }
  if (result.unchecked > 0) {
    result.warnings.push_back(path + ": " + std::to_string(result.unchecked) +
                              " rows without a passed check are left out");
  }
  if (result.rows.empty()) refuse(path, "at least one row with a passed check", "none");
  return result;
}

}  // namespace moesaic::cli::report
