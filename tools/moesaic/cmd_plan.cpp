// SPDX-License-Identifier: Apache-2.0
// moesaic plan: histograms in, what they cost out. JSON and CSV are spooled layer by layer, so
// memory does not grow with the input and a refusal found late leaves stdout empty.
#include <cstdio>
#include <optional>
#include <utility>

#include "commands.hpp"
#include "input.hpp"
#include "json_output.hpp"
#include "plan_text.hpp"
#include "spool.hpp"

namespace moesaic::cli {
namespace {

/// Where planned layers go: text keeps what it shows, the others write at once.
class PlanOutput {
 public:
  explicit PlanOutput(const Options& options)
      : options_(options), text_(options.plan, options.input) {
    if (options.output.json) write("{\"layers\":[");
    if (options.output.csv) write(plan_csv_head(options.plan));
  }

  void take(const routing::Record& record, planner::LayerPlan&& plan) {
    if (options_.output.json) {
      write((first_ ? "" : ",\n") + plan_layer_json(record, plan));
    } else if (options_.output.csv) {
      write(plan_csv_line(record, plan));
    } else {
      text_.take(record, std::move(plan));
    }
    first_ = false;
  }
  void take_ranks(const routing::Record& whole) {
    if (!options_.output.json && !options_.output.csv) text_.take_ranks(whole);
  }

  void finish(const std::vector<std::string>& notes) {
    if (options_.output.json) write("]}\n");
    if (spool_) {
      spool_->release();
    } else {
      std::fputs(text_.text(notes).c_str(), stdout);
    }
  }

 private:
  void write(std::string_view text) {
    if (!spool_) spool_.emplace();
    spool_->write(text);
  }

  const Options& options_;
  PlanText text_;
  std::optional<Spool> spool_;
  bool first_ = true;
};

planner::PlanOptions planner_options(const Options& options) {
  planner::PlanOptions planner = options.plan.planner;
  if (options.plan.shape) {
    planner.cost =
        planner::CostInput{planner::product_shape(*options.plan.shape, options.plan.projection),
                           options.plan.shape->d, options.input.ep.value_or(1)};
  }
  return planner;
}

}  // namespace

ExitCode cmd_plan(const Options& options) {
  const planner::PlanOptions planner = planner_options(options);
  const bool data = options.output.json || options.output.csv;
  PlanOutput output(options);
  const planner::TrainingShape* training =
      options.plan.shape ? options.plan.shape->training : nullptr;
  const InputReport report = read_inputs(options.input, training, [&](routing::Record&& record) {
    if (options.input.ep && !options.input.rank) output.take_ranks(record);
    for (const routing::Record& share : shares(std::move(record), options.input)) {
      output.take(share, planner::plan_layer(share.counts, planner));
    }
  });
  print_report(report, "plan", data);
  output.finish(report.notes);
  if (options.plan.explain) {
    // Definitions are for people: beside JSON or CSV they would spoil the data.
    std::fputs(explain_text().c_str(), data ? stderr : stdout);
  }
  return ExitCode::fine;
}

}  // namespace moesaic::cli
