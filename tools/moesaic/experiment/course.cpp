// SPDX-License-Identifier: Apache-2.0
// A course through the tasks of a design, in this process.
#include "experiment/course.hpp"

#include "interrupt.hpp"
#include "progress.hpp"

namespace moesaic::cli::experiment {
namespace {

/// Whether a task ends in time, by what the tasks before it took beside what was expected.
bool in_time(const Task& task, const Lesson& lesson, const Account& account,
             const std::optional<double>& budget_seconds) {
  if (!budget_seconds) return true;
  Spent expected = task.expected;
  expected.start = 0;  // has been spent
  return account.seconds() + lesson.corrected(expected) <= *budget_seconds;
}

}  // namespace

CourseResult run_course(const Design& design, const std::vector<Task>& tasks,
                        const BenchSetting& setting, const CourseOptions& options, Account& account,
                        RowSink& sink) {
  Progress progress(options.title, expected_seconds(tasks).total());
  const Interrupt interrupt;  // rows are kept whatever comes; a case at hand is worth finishing
  Workbench bench(setting.device, design.seed);
  account.charge(&Spent::start);
  CourseResult result;
  Lesson lesson;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    result.out_of_time = !in_time(task, lesson, account, options.budget_seconds);
    if (result.out_of_time || Interrupt::came()) {
      result.left.insert(result.left.end(), tasks.begin() + static_cast<std::ptrdiff_t>(i),
                         tasks.end());
      break;
    }
    Task rest = task;
    CaseHooks hooks;
    hooks.begins = [&](Arm arm) {
      progress.update(result.expected.total(), task.one->key + " " + std::string(name(arm)));
    };
    hooks.stop = [] { return Interrupt::came(); };
    hooks.finished = [&](const TimedArm& timed) {
      sink.write(timed_row(timed, task, design, setting));
      std::erase(rest.arms, timed.arm);
      ++result.rows;
      result.throttled += timed.result.clocks.throttled() ? 1 : 0;
      result.unsteady += timed.result.run.unsteady() ? 1 : 0;
    };
    run_task(task, design, {bench, account}, hooks, result.trouble);
    account.charge(&Spent::other);
    result.expected += task.expected;
    if (Interrupt::came() && !rest.arms.empty()) {
      result.left.push_back(std::move(rest));
    } else {
      lesson.learn(account.spent(), task.expected);
    }
  }
  account.charge(&Spent::other);
  result.spent = account.spent();
  result.left_seconds = lesson.corrected(expected_seconds(result.left));
  return result;
}

}  // namespace moesaic::cli::experiment
