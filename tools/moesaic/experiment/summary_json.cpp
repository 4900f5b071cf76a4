// SPDX-License-Identifier: Apache-2.0
// The figures of a summary as JSON; which they are is summary.hpp's.
#include "bench_json.hpp"
#include "experiment/summary_parts.hpp"

namespace moesaic::cli::experiment {
namespace {

using Json = nlohmann::ordered_json;  // prints NaN as null

Json sweep_json(const RowSet& set) {
  const std::vector<SweepPoint> points = sweep_points(set);
  Json sizes = Json::array();
  for (const SweepPoint& point : points) {
    sizes.push_back({{"rows", point.rows},
                     {"rows_per_expert", point.rows_per_expert},
                     {"tflops", point.tflops},
                     {"mean_s", point.mean_seconds},
                     {"padded_over_grouped", point.padded_over_grouped}});
  }
  const std::int64_t from = grouped_faster_from(points);
  return {{"sizes", std::move(sizes)}, {"grouped_faster_from", from < 0 ? Json() : Json(from)}};
}

Json split_json(const RowSet& set) {
  Json arms = Json::object();
  for (const std::string& arm : arms_of(set)) {
    if (arm == "dense") continue;
    for (const SplitPoint& point : split_points(set, arm)) {
      Json partitions = Json::array();
      for (const SplitPoint::Partition& one : point.partitions) {
        partitions.push_back({{"experts", one.experts},
                              {"trials", one.trials},
                              {"tflops", one.tflops},
                              {"over_dense", one.over_dense}});
      }
      arms[arm].push_back({{"tokens", point.tokens},
                           {"dense_tflops", point.dense_tflops},
                           {"partitions", std::move(partitions)}});
    }
  }
  return {{"arms", std::move(arms)}};
}

Json histograms_json(const std::vector<HistogramMean>& means) {
  if (means.empty()) return nullptr;
  Json histograms = Json::array(), bins = Json::array();
  for (const HistogramMean& one : means) {
    histograms.push_back({{"histogram", one.histogram},
                          {"bin", one.bin},
                          {"i_h", one.i_h},
                          {"relative", one.relative}});
  }
  for (const BinMedian& one : bin_medians(means)) {
    bins.push_back({{"bin", one.bin}, {"histograms", one.histograms}, {"median", one.relative}});
  }
  const Correlation spearman = correlate(means);
  return {{"spearman",
           {{"rho", spearman.rho},
            {"low", spearman.low},
            {"high", spearman.high},
            {"resamples", kResamples}}},
          {"bins", std::move(bins)},
          {"histograms", std::move(histograms)}};
}

Json load_json(const RowSet& set) {
  Json arms = Json::object();
  for (const std::string& arm : arms_of(set)) {
    arms[arm] = {{"tails", histograms_json(histogram_means(set, arm, false))},
                 {"whole_tiles", histograms_json(histogram_means(set, arm, true))}};
  }
  return {{"arms", std::move(arms)}};
}

Json spread_json(const PairPoint::Spread& spread) {
  return {{"mean", spread.mean}, {"least", spread.least}, {"most", spread.most}};
}

Json pair_json(const RowSet& set) {
  Json arms = Json::object();
  for (const std::string& arm : arms_of(set)) {
    for (const PairPoint& point : pair_points(set, arm)) {
      arms[arm].push_back({{"rows", point.rows},
                           {"pair", point.pair},
                           {"processes", point.processes},
                           {"balanced_tflops", point.balanced_tflops},
                           {"single_spike", spread_json(point.single_spike)},
                           {"three_hot", spread_json(point.three_hot)}});
    }
  }
  return {{"arms", std::move(arms)}};
}

Json clock_json(const RowSet& set) {
  Json sizes = Json::array();
  for (const ClockPoint& point : clock_points(set)) {
    sizes.push_back({{"rows_per_expert", point.rows_per_expert},
                     {"arm", point.arm},
                     {"trials", point.trials},
                     {"tflops", point.tflops},
                     {"sm_mhz", point.sm_mhz},
                     {"tflops_per_mhz", point.tflops_per_mhz},
                     {"power_w", point.power_w}});
  }
  const Looks looks = looks_of(set);
  return {{"sizes", std::move(sizes)},
          {"looks",
           {{"all", looks.all},
            {"power_capped", looks.power_capped},
            {"otherwise_limited", looks.otherwise_limited}}}};
}

Json replay_json(const RowSet& set) {
  Json buckets = Json::array(), pairs = Json::array();
  for (const ReplayPoint& point : replay_points(set)) {
    buckets.push_back({{"bucket", point.bucket},
                       {"arm", point.arm},
                       {"records", point.records},
                       {"geometric_mean", point.geometric_mean},
                       {"least", point.least},
                       {"most", point.most}});
  }
  for (const LoadPair& one : load_pairs(set)) {
    pairs.push_back({{"pair", one.pair},
                     {"arm", one.arm},
                     {"broad_s", one.broad_seconds},
                     {"concentrated_s", one.concentrated_seconds}});
  }
  return {{"buckets", std::move(buckets)}, {"pairs", std::move(pairs)}};
}

struct Figures {
  const char* experiment;
  Json (*json)(const RowSet&);
};
constexpr Figures kFigures[] = {
    {"fig38", sweep_json}, {"fig71", sweep_json}, {"table44", split_json}, {"fig40", load_json},
    {"fig72", pair_json},  {"fig73", clock_json}, {"skew", replay_json}};

}  // namespace

std::string summary_json(const RowSet& set) {
  Json json = {{"schema", "moesaic.experiment_summary/1"},
               {"experiment", set.experiment},
               {"protocol", set.protocol},
               {"device", set.device},
               {"rows", set.rows.size()},
               {"throttled", throttled_rows(set)},
               {"unsteady", unsteady_rows(set)}};
  for (const Figures& figures : kFigures) {
    if (set.experiment == figures.experiment) json["figures"] = figures.json(set);
  }
  return json_line(json) + "\n";
}

}  // namespace moesaic::cli::experiment
