// SPDX-License-Identifier: Apache-2.0
// moesaic plan: histograms in, what they cost out. JSON and CSV are spooled layer by layer, so
// memory does not grow with the input and a refusal found late leaves stdout empty.
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

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

  /// One layer record and the plan of each of its shares.
  void take(const routing::Record& whole, const std::vector<routing::Record>& parts,
            std::vector<planner::LayerPlan>&& plans) {
    if (!options_.output.json && !options_.output.csv) {
      text_.take(whole, parts, std::move(plans));
      return;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (options_.output.json) {
        write((first_ ? "" : ",\n") + plan_layer_json(parts[i], plans[i]));
      } else {
        write(plan_csv_line(parts[i], plans[i]));
      }
      first_ = false;
    }
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
  planner::PlanOptions planner = planner_options(options);
  const bool data = options.output.json || options.output.csv;
  PlanOutput output(options);
  const planner::TrainingShape* training =
      options.plan.shape ? options.plan.shape->training : nullptr;
  const InputReport report = read_inputs(options.input, training, [&](routing::Record&& record) {
    const auto experts = static_cast<std::int64_t>(record.counts.size());
    if (options.input.ep) {
      // Refuses with the flags' names.
      planner::rank_experts(experts, *options.input.ep, options.input.rank.value_or(0));
    }
    const std::vector<routing::Record> parts = shares(routing::Record(record), options.input);
    planner.whole = {record.rows(), experts};
    std::vector<planner::LayerPlan> plans;
    plans.reserve(parts.size());
    for (const routing::Record& part : parts) {
      plans.push_back(planner::plan_layer(part.counts, planner));
    }
    output.take(record, parts, std::move(plans));
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
