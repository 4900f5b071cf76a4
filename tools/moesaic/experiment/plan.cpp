// SPDX-License-Identifier: Apache-2.0
// Tasks of a design, and the plan of a run.
#include "experiment/plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench_json.hpp"
#include "operands.hpp"
#include "table.hpp"
#include "text.hpp"

namespace moesaic::cli::experiment {
namespace {

std::string arm_words(const std::vector<Arm>& arms) {
  std::vector<std::string> words;
  words.reserve(arms.size());
  for (const Arm arm : arms) words.emplace_back(name(arm));
  std::sort(words.begin(), words.end());
  return join(words, ", ");
}

std::string timing_words(const Timing& timing) {
  if (timing.regime == Regime::sustained) {
    return format(
        "sustained: pilot %g s, conditioning %g s and measurement %g s of every arm, in units of "
        "%g s without a gap",
        timing.regions.pilot_seconds, timing.regions.conditioning_seconds,
        timing.regions.measured_seconds, timing.regions.unit_seconds);
  }
  return format(
      "short_burst: %lld warm-ups and %lld samples of every arm, in turns, behind one gate on a "
      "GPU",
      static_cast<long long>(timing.warm_ups), static_cast<long long>(timing.samples));
}

/// The least and the largest of some numbers.
struct Range {
  std::int64_t least = 0, most = -1;
  void take(std::int64_t value) {
    least = most < least ? value : std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] std::string words() const {
    return grouped_digits(least) + (least == most ? "" : " to " + grouped_digits(most));
  }
};

/// Cases that a plan shows as one line.
struct Group {
  std::string title;
  const Case* first = nullptr;
  std::int64_t cases = 0, rows_to_run = 0;
  Range experts, rows, n;
  double seconds = 0;
};

std::string span_words(double seconds) {
  if (seconds < 60) return duration(seconds);
  const auto minutes = std::llround(seconds / 60);
  return minutes < 60 ? format("%lld min", minutes)
                      : format("%lld h %lld min", minutes / 60, minutes % 60);
}

/// Smaller cases first, then by their words.
std::vector<Group> groups_of(const Design& design, const std::vector<Task>& tasks,
                             const CaseFilter& filter) {
  std::map<std::string, Group> by_title;
  for (const Case& one : design.cases) {
    if (!filter.takes(one)) continue;
    Group& group = by_title[one.group];
    if (group.first == nullptr) {
      group.title = one.group;
      group.first = &one;
    }
    ++group.cases;
    group.experts.take(one.experts());
    group.rows.take(one.record.rows());
    group.n.take(one.product().n);
  }
  for (const Task& task : tasks) {
    Group& group = by_title.at(task.one->group);
    group.rows_to_run += static_cast<std::int64_t>(task.arms.size());
    group.seconds += task.expected.total();
  }
  std::vector<Group> groups;
  groups.reserve(by_title.size());
  for (auto& [title, group] : by_title) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.rows.least < b.rows.least; });
  return groups;
}

std::string group_table(const Design& design, const std::vector<Task>& tasks,
                        const CaseFilter& filter) {
  Table table({{"cases of", Align::left},
               {"cases"},
               {"experts"},
               {"rows"},
               {"N x K"},
               {"arms", Align::left},
               {"to run"},
               {"about"}});
  for (const Group& group : groups_of(design, tasks, filter)) {
    table.add({group.title, grouped_digits(group.cases), group.experts.words(), group.rows.words(),
               group.n.words() + " x " + grouped_digits(group.first->product().k),
               arm_words(group.first->arms), grouped_digits(group.rows_to_run),
               group.rows_to_run > 0 ? span_words(group.seconds) : "-"});
  }
  return table.text();
}

}  // namespace

std::vector<Task> tasks_of(const Design& design, const ResultFile& there, const Pace& pace,
                           const CaseFilter& filter) {
  std::vector<Task> tasks;
  HeldOperands held;
  for (std::size_t i = 0; i < design.cases.size(); ++i) {
    const Case& one = design.cases[i];
    if (!filter.takes(one)) continue;
    Task task{&one, static_cast<std::int64_t>(i), {}, {}};
    for (const Arm arm : one.arms) {
      if (arm == Arm::torch || there.has(place_of(design, one, arm))) continue;
      task.arms.push_back(arm);
      task.expected += arm_seconds(one, arm, design.timing, pace);
    }
    if (task.arms.empty()) continue;
    if (tasks.empty() || tasks.back().one->process != one.process) {
      task.expected += start_seconds(pace);
      held = HeldOperands();
    }
    task.expected += operand_seconds(one, held.take(one), pace);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Spent expected_seconds(const std::vector<Task>& tasks) {
  Spent sum;
  for (const Task& task : tasks) sum += task.expected;
  return sum;
}

std::int64_t row_count(const Design& design, const CaseFilter& filter) {
  std::int64_t count = 0;
  for (const Case& one : design.cases) {
    if (!filter.takes(one)) continue;
    count +=
        std::count_if(one.arms.begin(), one.arms.end(), [](Arm arm) { return arm != Arm::torch; });
  }
  return count;
}

std::int64_t row_count(const std::vector<Task>& tasks) {
  std::int64_t count = 0;
  for (const Task& task : tasks) count += std::ssize(task.arms);
  return count;
}

std::string torch_hint(const std::string& command, const std::string& output_path) {
  return "arm torch is not run by this command; its rows come from PyTorch by: " + command +
         " --dry-run --json | scripts/torch_arm.py --output " + shell_quote(output_path);
}

std::string about(double seconds) { return "about " + span_words(std::max(seconds, 1.0)); }

std::string plan_text(const Design& design, const std::vector<Task>& tasks,
                      const CaseFilter& filter, const Pace& pace, const std::string& output_path) {
  std::string text = design.name + ": " + design.title + "\n\n";
  const bool full = design.protocol == Protocol::full;
  text += "protocol   " + (full ? "full" : "reduced: " + design.why_reduced) + "\n";
  text += "timing     " + timing_words(design.timing) + "\n";
  text += format("processes  %lld%s\n", static_cast<long long>(design.processes),
                 design.processes > 1 ? ", each started afresh" : "");
  text += format("seed       %llu\n", static_cast<unsigned long long>(design.seed));
  for (const FactorChoice& choice : filter.only) {
    text += "only       " + choice.factor + " " + join(choice.values, ", ") +
            "; a case without it is run too\n";
  }
  const std::int64_t all = row_count(design, filter), left = row_count(tasks);
  text += "rows       " + grouped_digits(all) + " to " + output_path +
          (left < all ? ", of which " + grouped_digits(all - left) + " are there" : "") +
          "; appended and flushed case by case\n";
  const Spent expected = expected_seconds(tasks);
  text += "expected   " +
          (left > 0 ? about(expected.total()) + " on " + pace.of + ", warm-ups and samples " +
                          about(expected.timing) + " of it"
                    : "nothing to run on " + pace.of) +
          "\n";
  return text + "\n" + group_table(design, tasks, filter);
}

std::string plan_json(const Design& design, const CaseFilter& filter, const Pace& pace) {
  using Json = nlohmann::ordered_json;
  std::map<std::int64_t, double> expected;  // by place in the order; none: no arm of it runs here
  for (const Task& task : tasks_of(design, ResultFile(), pace, filter)) {
    expected[task.order] = task.expected.total();
  }
  std::string text;
  for (std::size_t i = 0; i < design.cases.size(); ++i) {
    const Case& one = design.cases[i];
    if (!filter.takes(one)) continue;
    const planner::ProductShape size = one.product();
    Json arms = Json::array();
    for (const Arm arm : one.arms) arms.push_back(name(arm));
    const Timing& timing = design.timing;
    text += json_line(Json{{"schema", "moesaic.experiment_case/1"},
                           {"experiment", design.name},
                           {"protocol", name(design.protocol)},
                           {"case", one.key},
                           {"process", one.process},
                           {"order", i},
                           {"factors", factors_json(one.factors)},
                           {"arms", std::move(arms)},
                           {"seed", design.seed},
                           {"routing",
                            {{"name", one.record.source},
                             {"label", one.record.label},
                             {"layer", one.record.layer},
                             {"step", one.record.step},
                             {"offs", end_offsets(one.record.counts)}}},
                           {"proj", planner::name(one.projection)},
                           {"d", one.shape.d},
                           {"h", one.shape.h},
                           {"n", size.n},
                           {"k", size.k},
                           {"repeated_rows", one.expert_rows == ExpertRows::repeated},
                           {"timing",
                            {{"regime", name(timing.regime)},
                             {"warm_ups", timing.warm_ups},
                             {"samples", timing.samples},
                             {"pilot_s", timing.regions.pilot_seconds},
                             {"conditioning_s", timing.regions.conditioning_seconds},
                             {"measured_s", timing.regions.measured_seconds},
                             {"unit_s", timing.regions.unit_seconds}}},
                           {"expected_s", expected[static_cast<std::int64_t>(i)]}}) +
            "\n";
  }
  return text;
}

}  // namespace moesaic::cli::experiment
