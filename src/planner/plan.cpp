// SPDX-License-Identifier: Apache-2.0
// One layer's whole plan out of its counts; each part is worked out in a file of its own.
#include <algorithm>
#include <numeric>
#include <string>

#include "moesaic/planner.hpp"
#include "planner/cost.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {
namespace {

void check_tiles(const std::vector<std::int64_t>& tiles) {
  if (tiles.empty()) refuse("--tiles: expected at least one tile, got none");
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i] < 1) {
      refuse("--tiles: expected rows >= 1, got " + std::to_string(tiles[i]));
    }
    if (std::find(tiles.begin(), tiles.begin() + static_cast<std::ptrdiff_t>(i), tiles[i]) !=
        tiles.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse("--tiles: expected each tile once, got " + std::to_string(tiles[i]) + " twice");
    }
  }
}

void add_cost(Counts counts, const CostInput& input, const DeviceModel& device, LayerPlan& plan) {
  for (const TileLedger& tile : plan.tiles) {
    plan.costs.push_back(cost_terms(counts, tile.tile, input, device));
  }
  plan.roofline = layer_roofline(counts, input.product, device);
  plan.device = device.name;
  plan.padded_batch_s = padded_batch_seconds(plan.capacity, plan.load.experts, input, device);
  if (plan.idle()) return;  // no rows: every tile costs one launch, none is better
  TileSuggestion suggestion = suggest_tile(plan.costs);
  for (std::size_t i = 0; i < plan.costs.size(); ++i) {
    if (plan.costs[i].tile == suggestion.tile) plan.suggested = i;
  }
  plan.suggestion_reason = std::move(suggestion.reason);
}

}  // namespace

const TileLedger& LayerPlan::reference_tile() const {
  if (suggested) return tiles.at(*suggested);
  return *std::max_element(
      tiles.begin(), tiles.end(),
      [](const TileLedger& a, const TileLedger& b) { return a.tile < b.tile; });
}

LayerPlan plan_layer(Counts counts, const PlanOptions& options) {
  return plan_layer(counts, options, device_preset(options.device));
}

LayerPlan plan_layer(Counts counts, const PlanOptions& options, const DeviceModel& device) {
  check_tiles(options.tiles);
  LayerPlan plan;
  plan.load = measure_load(counts);
  plan.tiles.reserve(options.tiles.size());
  for (const std::int64_t tile : options.tiles) plan.tiles.push_back(tile_ledger(counts, tile));
  plan.layer_rows = options.whole ? options.whole->rows : plan.load.useful_rows;
  plan.capacity = options.whole
                      ? capacity_ledger(counts, options.capacity,
                                        capacity_rows(options.capacity, options.whole->rows,
                                                      options.whole->experts))
                      : capacity_ledger(counts, options.capacity);
  for (const std::string& alignment : options.alignments) {
    plan.alignments.push_back(alignment_ledger(counts, alignment));
  }
  plan.offsets.resize(counts.size());
  std::partial_sum(counts.begin(), counts.end(), plan.offsets.begin());
  if (options.cost) add_cost(counts, *options.cost, device, plan);
  return plan;
}

}  // namespace moesaic::planner
