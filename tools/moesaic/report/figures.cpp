// SPDX-License-Identifier: Apache-2.0
// Rows sorted into the figures that may show them together.
#include <array>
#include <map>
#include <tuple>

#include "report/data.hpp"
#include "report/field.hpp"
#include "report/fig40.hpp"
#include "report/predict.hpp"

namespace moesaic::cli::report {
namespace {

/// The order of the page. `roofline` and `predicted` show rows that other figures show too.
constexpr std::array kKinds = {"fig38",   "fig71",    "table44",  "fig40", "fig72",
                               "fig73",   "skew",     "fig2",     "bench", "comparison",
                               "compare", "roofline", "predicted"};

std::size_t place_of_kind(const std::string& kind) {
  std::size_t place = 0;
  while (place < kKinds.size() && kind != kKinds[place]) ++place;
  return place;
}

/// What must be equal for two rows to stand in one figure.
using FigureKey = std::tuple<std::size_t, std::string, std::string>;  ///< Kind, protocol, regime.

/// Rows of one device of one file, the latest of every case.
struct FigureSet {
  std::vector<std::size_t> rows;
  std::map<std::string, std::size_t> by_case;  ///< Index into `rows`.
  std::int64_t superseded = 0;
};
using SetKey = std::pair<std::size_t, std::string>;  ///< File, device.

std::string kind_of(const Json& row) {
  const std::string schema = text(row, "schema");
  if (schema == "moesaic.compare/1") return "compare";
  if (field(row, "experiment") != nullptr) return text(row, "experiment.name");
  return field(row, "comparison") != nullptr ? "comparison" : "bench";
}

std::string dump(const Json& row, const char* path) {
  const Json* value = field(row, path);
  return value == nullptr ? "" : value->dump(-1, ' ', false, kReplace);
}

/// Recordings say it by the names of their cases alone.
std::string compare_regime(const Json& row) {
  return text(row, "case").starts_with("sustained ") ? "sustained" : "short_burst";
}

/// Rows with equal keys measured the same thing; the later one counts.
std::string case_key(const Json& row, const std::string& kind) {
  if (kind == "compare") return text(row, "case");
  std::string key;
  for (const char* path : {"experiment.case", "experiment.arm", "comparison", "arm", "problem",
                           "routing.name", "routing.layer", "routing.step", "routing.rank",
                           "routing.offs", "device_preset", "shape"}) {
    key += dump(row, path) + "|";
  }
  return key;
}

class Sorter {
 public:
  void take(std::size_t file, std::size_t index, const Json& row) {
    const std::string kind = kind_of(row);
    const std::string protocol = text(row, "experiment.protocol");
    std::string regime = text(row, "timing.regime");
    if (kind == "compare") regime = compare_regime(row);
    if (regime.empty() && field(row, "timing") != nullptr) regime = "unstated";
    std::string device = text(row, "device.name");
    if (device.empty())
      device = "arithmetic";  // curves of device presets, which stand side by side
    const std::string key = case_key(row, kind);
    add({place_of_kind(kind), protocol, regime}, {file, device}, index, key);
    if (number(row, "device.peak.bf16_flops_per_second") > 0 && number(row, "work.min_bytes") > 0) {
      add({place_of_kind("roofline"), protocol, regime}, {file, device}, index, key);
    }
    if (field(row, "predicted") != nullptr) {
      add({place_of_kind("predicted"), protocol, regime}, {file, device}, index, key);
    }
  }

  Json json(const std::vector<ResultFile>& files) const {
    Json figures = Json::array();
    for (const auto& [key, sets] : figures_) {
      const auto& [kind, protocol, regime] = key;
      Json list = Json::array();
      for (const auto& [place, set] : sets) {
        Json one = {{"file", place.first},
                    {"device", place.second},
                    {"rows", set.rows},
                    {"superseded", set.superseded}};
        if (kind == place_of_kind("fig40")) {
          one["fig40"] = fig40_data(files[place.first].rows, set.rows);
        }
        list.push_back(std::move(one));
      }
      figures.push_back({{"kind", kKinds[kind]},
                         {"protocol", protocol},
                         {"regime", regime},
                         {"sets", std::move(list)}});
    }
    return figures;
  }

 private:
  void add(const FigureKey& figure, const SetKey& place, std::size_t index,
           const std::string& key) {
    FigureSet& set = figures_[figure][place];
    const auto [found, fresh] = set.by_case.try_emplace(key, set.rows.size());
    if (fresh) {
      set.rows.push_back(index);
    } else {
      set.rows[found->second] = index;
      ++set.superseded;
    }
  }

  std::map<FigureKey, std::map<SetKey, FigureSet>> figures_;
};

}  // namespace

Json result_data(const std::vector<ResultFile>& files, const std::string& preset) {
  std::vector<ResultFile> told = files;
  Sorter sorter;
  Json list = Json::array();
  for (std::size_t i = 0; i < told.size(); ++i) {
    ResultFile& file = told[i];
    for (std::size_t index = 0; index < file.rows.size(); ++index) {
      Json& row = file.rows[index];
      add_load(row);
      add_prediction(row, preset);
      sorter.take(i, index, row);
    }
    list.push_back({{"name", file.name},
                    {"bytes", file.bytes},
                    {"unchecked", file.unchecked},
                    {"warnings", file.warnings},
                    {"rows", file.rows}});
  }
  return {{"files", std::move(list)}, {"figures", sorter.json(told)}};
}

}  // namespace moesaic::cli::report
