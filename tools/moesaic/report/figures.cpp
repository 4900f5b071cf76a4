// SPDX-License-Identifier: Apache-2.0
// Rows sorted into the figures that may show them together.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "report/data.hpp"
#include "report/exchange_rows.hpp"
#include "report/field.hpp"
#include "report/fig40.hpp"
#include "report/predict.hpp"

namespace moesaic::cli::report {
namespace {

/// The order of the page. `ep_blocks`, `roofline` and `predicted` show rows that other figures show
/// too.
constexpr std::array kKinds = {"fig38",     "fig71",  "table44",  "fig40",      "fig72",   "fig73",
                               "skew",      "fig2",   "bench",    "comparison", "compare", "ep",
                               "ep_blocks", "ep_arm", "roofline", "predicted"};

std::size_t place_of_kind(const std::string& kind) {
  std::size_t place = 0;
  while (place < kKinds.size() && kind != kKinds[place]) ++place;
  return place;
}

/// What must be equal for two rows to stand in one figure.
struct FigureKey {
  std::size_t kind = 0;
  std::string protocol, regime;
  std::int64_t ranks = 0;  ///< Of rows between ranks alone, as is the transport.
  std::string transport;
  bool operator<(const FigureKey& other) const {
    return std::tie(kind, protocol, regime, ranks, transport) <
           std::tie(other.kind, other.protocol, other.regime, other.ranks, other.transport);
  }
};

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
  if (is_exchange(row)) return exchange_kind(row);
  if (field(row, "experiment") != nullptr) return text(row, "experiment.name");
  return field(row, "comparison") != nullptr ? "comparison" : "bench";
}

std::string dump(const Json& row, const char* path) {
  const Json* value = field(row, path);
  return value == nullptr ? "" : value->dump(-1, ' ', false, kReplace);
}

/// Some rows do not say it: recordings have it in the names of their cases, and the exchange
/// between ranks has bursts alone.
std::string regime_of(const Json& row, const std::string& kind) {
  std::string stated = text(row, "timing.regime");
  if (!stated.empty()) return stated;
  const bool sustained = text(row, "case").starts_with("sustained ");
  if (kind == "compare" || field(row, "device.ranks") != nullptr) {
    return std::string(name(sustained ? Regime::sustained : Regime::short_burst));
  }
  return field(row, "timing") == nullptr ? "" : "unstated";
}

/// Rows with equal keys measured the same thing; the later one counts.
std::string case_key(const Json& row, const std::string& kind) {
  if (kind == "compare") return text(row, "case");
  if (is_exchange(row)) return exchange_case(row);
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
    FigureKey figure;
    figure.protocol = text(row, "experiment.protocol");
    figure.regime = regime_of(row, kind);
    if (is_exchange(row)) {
      figure.ranks = static_cast<std::int64_t>(number(row, "device.ranks"));
      figure.transport = text(row, "device.transport");
    }
    std::string device = text(row, "device.name");
    if (device.empty())
      device = "arithmetic";  // curves of device presets, which stand side by side
    const std::string key = case_key(row, kind);
    const auto show = [&](const char* name) {
      figure.kind = place_of_kind(name);
      add(figure, {file, device}, index, key);
    };
    show(kind.c_str());
    if (kind == "ep" && moves_rows(row)) show("ep_blocks");
    if (number(row, "device.peak.bf16_flops_per_second") > 0 && number(row, "work.min_bytes") > 0) {
      show("roofline");
    }
    if (field(row, "predicted") != nullptr) show("predicted");
  }

  Json json(const std::vector<ResultFile>& files) const {
    Json figures = Json::array();
    for (const auto& [key, sets] : figures_) {
      if (key.kind == place_of_kind("ep_blocks") && !has_sweep(files, sets)) continue;
      Json list = Json::array();
      for (const auto& [place, set] : sets) {
        Json one = {{"file", place.first},
                    {"device", place.second},
                    {"rows", set.rows},
                    {"superseded", set.superseded}};
        if (key.kind == place_of_kind("fig40")) {
          one["fig40"] = fig40_data(files[place.first].rows, set.rows);
        }
        list.push_back(std::move(one));
      }
      Json figure = {{"kind", kKinds[key.kind]},
                     {"protocol", key.protocol},
                     {"regime", key.regime},
                     {"sets", std::move(list)}};
      if (key.ranks > 0) {
        figure["ranks"] = key.ranks;
        figure["transport"] = key.transport;
      }
      figures.push_back(std::move(figure));
    }
    return figures;
  }

 private:
  using FigureSets = std::map<SetKey, FigureSet>;

  /// One number of thread blocks alone is no sweep.
  static bool has_sweep(const std::vector<ResultFile>& files, const FigureSets& sets) {
    return std::any_of(sets.begin(), sets.end(), [&](const auto& one) {
      const auto& [place, set] = one;
      const std::vector<Json>& rows = files[place.first].rows;
      const double first = number(rows[set.rows.front()], "nblocks");
      return std::any_of(set.rows.begin(), set.rows.end(), [&](std::size_t index) {
        return number(rows[index], "nblocks") != first;
      });
    });
  }

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

  std::map<FigureKey, FigureSets> figures_;
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
