// SPDX-License-Identifier: Apache-2.0
// Roofline curves of Fig. 2: Eqs. 92 to 94 over the tokens.
#include "experiment/fig2.hpp"

#include <algorithm>
#include <cmath>

#include "bench_json.hpp"
#include "moesaic/planner.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

using Json = nlohmann::ordered_json;
using planner::FfnPair;
using planner::FfnTraffic;
using planner::RooflinePoint;

constexpr FfnPair kPair;  // the figure's own: N = 64, K = 4, d = h = 4096

struct Layout {
  const char* arm;
  FfnTraffic (*traffic)(double, const FfnPair&);
  double RooflinePoint::*fraction;
  double rows_per_token;  ///< Rows that one expert gets of one token; all of them when dense.
};
constexpr Layout kLayouts[] = {
    {"dense", planner::dense_traffic, &RooflinePoint::dense_fraction, 1},
    {"grouped", planner::moe_traffic, &RooflinePoint::moe_fraction, kPair.top_k / kPair.experts}};

double total_bytes(const FfnTraffic& traffic) {
  return traffic.weight_bytes + traffic.input_bytes + traffic.output_bytes + traffic.hidden_bytes;
}

Json constant_json(const planner::Constant& constant) {
  return {{"value", constant.value}, {"source", constant.source}};
}

Json curve_json(const planner::DeviceModel& device, const Layout& layout, const RowPlace& place,
                std::int64_t order) {
  const double peak = device.bf16_flops_per_second.value;
  Json points = Json::array();
  for (const RooflinePoint& point : planner::fig2_curve(device, fig2_tokens(), kPair)) {
    points.push_back({{"tokens", std::llround(point.tokens)},
                      {"rows_per_expert", point.tokens * layout.rows_per_token},
                      {"intensity", point.flops / total_bytes(layout.traffic(point.tokens, kPair))},
                      {"bound_flops_per_second", point.*layout.fraction * peak}});
  }
  return {{"schema", "moesaic.roofline/1"},
          {"experiment", place_json(place, order, {{"device_preset", device.name}})},
          {"device_preset", device.name},
          {"sources",
           {{"bf16_flops_per_second", constant_json(device.bf16_flops_per_second)},
            {"dram_bytes_per_second", constant_json(device.dram_bytes_per_second)}}},
          {"shape",
           {{"name", "fig2"},
            {"d", std::llround(kPair.d)},
            {"h", std::llround(kPair.h)},
            {"experts", std::llround(kPair.experts)},
            {"top_k", std::llround(kPair.top_k)}}},
          {"points", std::move(points)}};
}

/// The first token count of the grid whose bound is at least this share of the peak.
std::string tokens_at(const std::vector<RooflinePoint>& curve, const Layout& layout, double share) {
  for (const RooflinePoint& point : curve) {
    if (point.*layout.fraction >= share) return format("T = %.0f", point.tokens);
  }
  return "no T of the table";
}

}  // namespace

std::vector<double> fig2_tokens() {
  static constexpr int kOctaves = 17, kSteps = 4;
  std::vector<double> tokens;
  for (int i = 0; i <= kOctaves * kSteps; ++i) {
    const double count = std::round(std::exp2(static_cast<double>(i) / kSteps));
    if (tokens.empty() || count > tokens.back()) tokens.push_back(count);
  }
  return tokens;
}

std::vector<Fig2Row> fig2_rows(std::span<const std::string> presets) {
  std::vector<Fig2Row> rows;
  for (const std::string& preset : presets) {
    const planner::DeviceModel& device = planner::device_preset(preset);
    for (const Layout& layout : kLayouts) {
      const RowPlace place = {"fig2", "full", "device=" + device.name, layout.arm, 0};
      const auto order = static_cast<std::int64_t>(rows.size()) / std::ssize(kLayouts);
      rows.push_back({place, json_line(curve_json(device, layout, place, order))});
    }
  }
  return rows;
}

std::string fig2_text(std::span<const std::string> presets) {
  static constexpr int kShownOctaves = 2;
  std::vector<Column> columns = {{"tokens"}, {"rows per expert"}};
  std::vector<std::vector<RooflinePoint>> curves;
  std::vector<double> shown;
  double tokens = 1;
  while (tokens <= fig2_tokens().back()) {
    shown.push_back(tokens);
    tokens *= 1 << kShownOctaves;
  }
  for (const std::string& preset : presets) {
    for (const Layout& layout : kLayouts) columns.push_back({preset + " " + layout.arm});
    curves.push_back(planner::fig2_curve(planner::device_preset(preset), shown, kPair));
  }
  Table table(columns);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    std::vector<std::string> words = {grouped_digits(std::llround(shown[i])),
                                      format("%g", shown[i] * kLayouts[1].rows_per_token)};
    for (const std::vector<RooflinePoint>& curve : curves) {
      for (const Layout& layout : kLayouts) words.push_back(percent(curve[i].*layout.fraction));
    }
    table.add(std::move(words));
  }
  std::string text = format(
      "Bound on the forward pair of products, share of the peak; N = %.0f, K = %.0f, d = %.0f, "
      "h = %.0f\n\n",
      kPair.experts, kPair.top_k, kPair.d, kPair.h);
  text += table.text() + "\n";
  for (const std::string& preset : presets) {
    const planner::DeviceModel& device = planner::device_preset(preset);
    const std::vector<RooflinePoint> curve = planner::fig2_curve(device, fig2_tokens(), kPair);
    text += format("%s: %.0f FLOP per byte balance; 90 %% of the peak from %s dense, %s grouped\n",
                   preset.c_str(), planner::balance_point(device),
                   tokens_at(curve, kLayouts[0], 0.9).c_str(),
                   tokens_at(curve, kLayouts[1], 0.9).c_str());
  }
  return text;
}

}  // namespace moesaic::cli::experiment
