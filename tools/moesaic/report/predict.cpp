// SPDX-License-Identifier: Apache-2.0
// What the planner says of a measured row.
#include "report/predict.hpp"

#include <vector>

#include "moesaic/planner.hpp"
#include "report/field.hpp"

namespace moesaic::cli::report {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::int64_t> counts_of(const Json& row) {
  std::vector<std::int64_t> counts;
  const Json* offs = field(row, "routing.offs");
  if (offs == nullptr || !offs->is_array()) return counts;
  std::int64_t last = 0;
  for (const Json& end : *offs) {
    counts.push_back(end.get<std::int64_t>() - last);
    last = end.get<std::int64_t>();
  }
  return counts;
}

/// The preset whose peaks stand in the row.
const planner::DeviceModel* model_of(const Json& row, const std::string& preset) {
  const double flops = number(row, "device.peak.bf16_flops_per_second");
  const double bytes = number(row, "device.peak.dram_bytes_per_second");
  const planner::DeviceModel* found = nullptr;
  for (const planner::DeviceModel& model : planner::device_presets()) {
    if (model.bf16_flops_per_second.value != flops || model.dram_bytes_per_second.value != bytes) {
      continue;
    }
    if (found == nullptr || model.name == preset) found = &model;
  }
  return found;
}

/// An implementation that was named has tiles of its own, which the planner knows nothing of.
bool is_planned_grouped(const Json& row) {
  const std::string arm = text(row, "experiment.arm");
  return (arm.empty() ? text(row, "problem.strategy") : arm) == "grouped" &&
         field(row, "problem.implementation") == nullptr;
}

}  // namespace

void add_load(Json& row) {
  const std::vector<std::int64_t> counts = counts_of(row);
  if (counts.empty()) return;
  const planner::LoadMetrics load = planner::measure_load(counts);
  row["load"] = {{"i_h", load.i_h},
                 {"i_max", load.i_max},
                 {"effective_experts", load.effective_experts},
                 {"mean_rows", load.mean_rows},
                 {"counts", counts}};
}

void add_prediction(Json& row, const std::string& preset) {
  const std::string pass = text(row, "problem.pass");
  const double n = number(row, "problem.n"), k = number(row, "problem.k");
  if (!is_planned_grouped(row) || (pass != "forward" && pass != "dgrad")) return;
  if (text(row, "problem.dtype") != "bf16" || !(n >= 1) || !(k >= 1)) return;
  const planner::DeviceModel* model = model_of(row, preset);
  const std::vector<std::int64_t> counts = counts_of(row);
  if (model == nullptr || counts.empty() || counts.back() < 0) return;
  planner::CostInput input;
  input.product = {static_cast<std::int64_t>(n), static_cast<std::int64_t>(k)};
  if (pass == "dgrad") std::swap(input.product.n, input.product.k);
  input.d = input.product.k;
  planner::PlanOptions options;
  options.cost = input;
  const planner::LayerPlan plan = planner::plan_layer(counts, options, *model);
  if (!plan.suggested || !plan.roofline) return;
  row["predicted"] = {{"tile", plan.costs[*plan.suggested].tile},
                      {"kernel_s", plan.costs[*plan.suggested].kernel_s()},
                      {"bound_s", plan.roofline->bound_s},
                      {"preset", model->name}};
}

}  // namespace moesaic::cli::report
