// SPDX-License-Identifier: Apache-2.0
// What planning costs: a whole model's layers within this process, and `moesaic plan` as a process
// of its own over generated files.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/session.hpp"
#include "moesaic/planner.hpp"
#include "process/plan_process.hpp"

namespace moesaic::bench {
namespace {

constexpr std::int64_t kManySteps = 1000;
constexpr const char* kShape = "d=7168,h=2048";

using Histograms = std::vector<std::vector<std::int64_t>>;

Histograms generate_all() {
  Histograms all;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    all.push_back(layer_counts(0, layer));
  }
  return all;
}

/// Everything a plan can hold: the ledgers and, by a shape, cost and roofline.
planner::PlanOptions plan_options() {
  const planner::LayerShape shape = planner::parse_shape(kShape);
  planner::PlanOptions options;
  options.cost =
      planner::CostInput{planner::product_shape(shape, planner::Projection::up_gate), shape.d, 1};
  return options;
}

std::vector<planner::LayerPlan> plan_all(const Histograms& histograms) {
  const planner::PlanOptions options = plan_options();
  std::vector<planner::LayerPlan> plans;
  for (const std::vector<std::int64_t>& counts : histograms) {
    plans.push_back(planner::plan_layer(counts, options));
  }
  return plans;
}

void compare(const char* what, std::size_t layer, std::int64_t column, std::int64_t got,
             std::int64_t want, CheckResult& result) {
  ++result.elements;
  if (got != want) {
    ++result.mismatches;
    if (!result.first) {
      result.first = Mismatch{what,
                              -1,
                              static_cast<std::int64_t>(layer),
                              column,
                              static_cast<double>(got),
                              static_cast<double>(want),
                              0};
    }
  }
}

/// Offsets and padded rows of every layer, counted again one expert at a time.
CheckResult check_plans(const Histograms& histograms,
                        const std::vector<planner::LayerPlan>& plans) {
  CheckResult result;
  for (std::size_t layer = 0; layer < std::max(histograms.size(), plans.size()); ++layer) {
    if (layer >= histograms.size() || layer >= plans.size()) {
      compare("layers", layer, 0, static_cast<std::int64_t>(plans.size()),
              static_cast<std::int64_t>(histograms.size()), result);
      continue;
    }
    const planner::LayerPlan& plan = plans[layer];
    std::int64_t end = 0;
    for (std::size_t expert = 0; expert < histograms[layer].size(); ++expert) {
      end += histograms[layer][expert];
      compare("offsets", layer, static_cast<std::int64_t>(expert),
              expert < plan.offsets.size() ? plan.offsets[expert] : -1, end, result);
    }
    for (const planner::TileLedger& ledger : plan.tiles) {
      std::int64_t padded = 0;
      for (const std::int64_t rows : histograms[layer]) {
        const std::int64_t rest = rows % ledger.tile;
        padded += rest == 0 ? rows : rows + ledger.tile - rest;
      }
      compare("padded_rows", layer, ledger.tile, ledger.padded_rows, padded, result);
    }
  }
  return result;
}

Arm plan_arm(bool generates) {
  struct State {
    Histograms histograms = generate_all();
    std::vector<planner::LayerPlan> plans;
  };
  const auto state = std::make_shared<State>();
  const auto run = [state, generates] {
    if (generates) {
      state->histograms = generate_all();
    }
    state->plans = plan_all(state->histograms);
  };
  Arm arm;
  arm.name = generates ? "generate_and_plan" : "plan";
  arm.implementation = generates ? "routing::generate, planner::plan_layer" : "planner::plan_layer";
  arm.problem = {
      {"layers", kLayers}, {"experts", kLayerExperts}, {"shape", kShape}, {"threads", 1}};
  arm.check_reference = "offsets and padded rows of every layer, counted one expert at a time";
  arm.run = run;
  arm.check = [state, run] {
    state->plans.clear();
    run();
    return check_plans(generate_all(), state->plans);
  };
  return arm;
}

std::vector<Comparison> comparisons(const Options& options) {
  std::vector<Comparison> all;
  Comparison planning;
  planning.name = "plan_61x256";
  planning.routing.name = kPlanSpec;
  planning.arms = {"plan", "generate_and_plan"};
  planning.prepare = [] { return std::vector<Arm>{plan_arm(false), plan_arm(true)}; };
  all.push_back(std::move(planning));
  if (options.moesaic.empty()) {
    std::fputs("plan_bench: no --moesaic FILE, so the command `moesaic plan` is not measured\n",
               stderr);
    return all;
  }
  if (::access(options.moesaic.c_str(), X_OK) != 0) {
    throw Error(ErrorCode::invalid_argument,
                "--moesaic: expected a program that can be run, got " + options.moesaic);
  }
  all.push_back(plan_process("process_sglang_61x256", options.moesaic, write_sglang_like));
  all.push_back(plan_process(
      "process_1000_steps_61x256", options.moesaic,
      [](const std::filesystem::path& folder) { return write_steps(folder, kManySteps); }));
  return all;
}

int run(int argc, char** argv) {
  const Options options = take_options(argc, argv);
  return run_benchmarks(options, comparisons(options), argc, argv);
}

}  // namespace
}  // namespace moesaic::bench

int main(int argc, char** argv) {
  return moesaic::bench::guarded_main(moesaic::bench::run, argc, argv);
}
