// SPDX-License-Identifier: Apache-2.0
// What a routing costs, from its row counts alone: no device, no file, no weights.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "moesaic/planner.hpp"
#include "moesaic/routing.hpp"

namespace {

void print_tiles(const char* name, const moesaic::planner::LayerPlan& plan) {
  std::printf("%s: %lld rows, %.2f effective experts\n", name,
              static_cast<long long>(plan.load.useful_rows), plan.load.effective_experts);
  for (const moesaic::planner::TileLedger& ledger : plan.tiles) {
    std::printf("  tile %3lld executes %5lld rows, %4.1f %% padding\n",
                static_cast<long long>(ledger.tile), static_cast<long long>(ledger.padded_rows),
                100 * ledger.padding_fraction);
  }
}

}  // namespace

int main() {
  // [plan_tiles]
  // The same 132 rows over eight experts, spread evenly and concentrated.
  const std::vector<std::int64_t> even = {17, 17, 17, 17, 16, 16, 16, 16};
  const std::vector<std::int64_t> skewed = {100, 32, 0, 0, 0, 0, 0, 0};
  moesaic::planner::PlanOptions options;
  options.tiles = {8, 16, 32};
  const auto even_plan = moesaic::planner::plan_layer(even, options);
  const auto skewed_plan = moesaic::planner::plan_layer(skewed, options);
  // [/plan_tiles]
  print_tiles("even", even_plan);
  print_tiles("skewed", skewed_plan);
  const bool as_published =
      even_plan.tiles[0].padded_rows == 160 && even_plan.tiles[2].padded_rows == 256 &&
      skewed_plan.tiles[0].padded_rows == 136 && skewed_plan.tiles[2].padded_rows == 160;

  // [plan_cost]
  // With widths the plan also estimates time on a device that need not be here.
  const auto record =
      moesaic::routing::generate("zipf:1.2", {.rows = 8192, .experts = 32, .seed = 1});
  options.tiles = {8, 16, 32, 64, 128};
  options.device = "h200";
  options.cost = moesaic::planner::CostInput{.product = {.n = 2048, .k = 1024}, .d = 1024};
  const auto plan = moesaic::planner::plan_layer(record.counts, options);
  const auto verdict = moesaic::planner::judge_layer(plan);
  std::printf("%s\n", std::string(moesaic::planner::name(verdict.recommendation)).c_str());
  for (const auto& finding : verdict.findings) std::printf("  %s\n", finding.sentence.c_str());
  // [/plan_cost]

  if (!as_published) std::fprintf(stderr, "plan_a_layer: expected P = 160, 256, 136, 160\n");
  return as_published && plan.suggested && !verdict.findings.empty() ? 0 : 1;
}
