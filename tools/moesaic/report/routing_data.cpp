// SPDX-License-Identifier: Apache-2.0
// Histograms and the planner's figures for the page.
#include "report/data.hpp"
#include "report/exchange_rows.hpp"
#include "text.hpp"

namespace moesaic::cli::report {
namespace {

/// Up to here a page counts exactly.
constexpr double kMostExact = 9007199254740992.0;
/// More would be a page that no browser opens with pleasure.
constexpr std::int64_t kMostNumbers = 2'000'000;

Json load_json(const planner::LayerPlan& plan) {
  const planner::LoadMetrics& load = plan.load;
  Json tiles = Json::array();
  for (const planner::TileLedger& tile : plan.tiles) {
    tiles.push_back({{"tile", tile.tile},
                     {"row_tiles", tile.row_tiles},
                     {"padded_rows", tile.padded_rows},
                     {"padding_rows", tile.padding_rows},
                     {"padding_fraction", tile.padding_fraction}});
  }
  return {{"useful_rows", load.useful_rows},
          {"active_experts", load.active_experts},
          {"max_rows", load.max_rows},
          {"mean_rows", load.mean_rows},
          {"effective_experts", load.effective_experts},
          {"i_h", load.i_h},
          {"i_max", load.i_max},
          {"balancedness", load.balancedness},
          {"cv", load.cv},
          {"entropy_bits", load.entropy_bits},
          {"tiles", tiles},
          {"capacity", plan.capacity.capacity},
          {"rho_pad", plan.capacity.rho_pad},
          {"overflow_rows", plan.capacity.overflow_rows},
          {"offsets", plan.offsets.empty() ? 0 : plan.offsets.back()}};
}

Json ranks_json(const planner::RankReport& ranks) {
  Json tails = Json::array();
  for (const planner::RankTileTail& tail : ranks.tails) {
    tails.push_back({{"tile", tail.tile},
                     {"max_padded_rows", tail.max_padded_rows},
                     {"sum_padded_rows", tail.sum_padded_rows}});
  }
  return {{"max_rows", ranks.max_rows}, {"max_over_mean", ranks.max_over_mean}, {"tails", tails}};
}

void require_countable(const routing::Record& record, const planner::LayerPlan& plan) {
  for (const planner::TileLedger& tile : plan.tiles) {
    if (static_cast<double>(tile.padded_rows) <= kMostExact) continue;
    refuse(record.source + ": layer " + std::to_string(record.layer),
           "at most 2^53 rows, tile padding included", grouped_digits(tile.padded_rows));
  }
}

Json capacity_json(const Capacity& capacity) {
  return {{"rule", name(capacity.rule)},
          {"factor_millionths", capacity.factor_millionths},
          {"source_ranks", capacity.source_ranks}};
}

Json record_json(const routing::Record& record, const Options& options) {
  const planner::LayerPlan plan = planner::plan_layer(record.counts, options.plan.planner);
  require_countable(record, plan);
  Json json = {{"source", record.source},
               {"layer", record.layer},
               {"step", record.step},
               {"rank", record.rank < 0 ? Json(nullptr) : Json(record.rank)},
               {"aggregation", routing::to_string(record.aggregation)},
               {"label", record.label},
               {"invalid_slots", record.invalid_slots},
               {"counts", record.counts},
               {"plan", load_json(plan)},
               {"ranks", nullptr}};
  if (options.input.ep) {
    json["ranks"] = ranks_json(
        planner::rank_report(record.counts, *options.input.ep, options.plan.planner.tiles));
  }
  return json;
}

}  // namespace

Json routing_data(const Options& options, const std::vector<std::string>& inputs,
                  InputReport& report) {
  Json records = Json::array();
  if (!inputs.empty()) {
    InputOptions input = options.input;
    input.inputs = inputs;
    std::int64_t numbers = 0;
    report = read_inputs(input, nullptr, [&](routing::Record&& record) {
      numbers += static_cast<std::int64_t>(record.counts.size());
      if (numbers > kMostNumbers) {
        refuse("input",
               "at most " + grouped_digits(kMostNumbers) +
                   " row counts, which --layer, --step and --rank choose",
               "more, at " + record.source + " layer " + std::to_string(record.layer) + " step " +
                   std::to_string(record.step));
      }
      records.push_back(record_json(record, options));
    });
  }
  return {{"notes", report.notes},
          {"warnings", report.warnings},
          {"tiles", options.plan.planner.tiles},
          {"capacity", capacity_json(options.plan.planner.capacity)},
          {"ep", options.input.ep ? Json(*options.input.ep) : Json(nullptr)},
          {"records", std::move(records)}};
}

Json explorer_data(const planner::PlanOptions& options) {
  struct Example {
    const char* name;
    std::vector<std::int64_t> counts;
  };
  const std::vector<Example> examples = {
      {"The report's drawing", {1, 4, 3, 2}},
      {"Nearly even", {17, 17, 17, 17, 16, 16, 16, 16}},
      {"Concentrated", {100, 32, 0, 0, 0, 0, 0, 0}},
      {"One expert has all", {0, 0, 64, 0, 0, 0, 0, 0}},
      {"One row each", std::vector<std::int64_t>(32, 1)},
  };
  planner::PlanOptions plan_options = options;
  plan_options.capacity = Capacity{};
  Json list = Json::array();
  for (const Example& example : examples) {
    list.push_back({{"name", example.name},
                    {"counts", example.counts},
                    {"plan", load_json(planner::plan_layer(example.counts, plan_options))}});
  }
  return {{"capacity", capacity_json(plan_options.capacity)}, {"examples", std::move(list)}};
}

Json definition_data() {
  Json json = Json::object();
  for (const std::string_view name : planner::defined_names()) {
    json[std::string(name)] = planner::definition(name);
  }
  add_exchange_definitions(json);
  return json;
}

}  // namespace moesaic::cli::report
