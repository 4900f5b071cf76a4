// SPDX-License-Identifier: Apache-2.0
// A course through the tasks of a design, in this process.
#include "experiment/course.hpp"

#include <chrono>
#include <numeric>

#include "interrupt.hpp"
#include "progress.hpp"

namespace moesaic::cli::experiment {
namespace {

class Clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// How much longer tasks took than was expected of them; believed once some seconds say so.
double correction(double took_seconds, double expected_seconds) {
  static constexpr double kEnoughSeconds = 1;
  return took_seconds > kEnoughSeconds && expected_seconds > 0 ? took_seconds / expected_seconds
                                                               : 1;
}

}  // namespace

CourseResult run_course(const Design& design, const std::vector<Task>& tasks,
                        const BenchSetting& setting, std::optional<double> budget_seconds,
                        const std::string& title, RowSink& sink) {
  const Clock clock;
  Progress progress(title, expected_seconds(tasks));
  const Interrupt interrupt;  // rows are kept whatever comes; a case at hand is worth finishing
  Workbench bench(setting.device, design.seed);
  CourseResult result;
  double done = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    const double needed = task.seconds * correction(clock.seconds(), done);
    result.out_of_time = budget_seconds && clock.seconds() + needed > *budget_seconds;
    if (result.out_of_time || Interrupt::came()) {
      result.left.insert(result.left.end(), tasks.begin() + static_cast<std::ptrdiff_t>(i),
                         tasks.end());
      return result;
    }
    Task rest = task;
    CaseHooks hooks;
    hooks.begins = [&](Arm arm) {
      progress.update(done, task.one->key + " " + std::string(name(arm)));
    };
    hooks.stop = [] { return Interrupt::came(); };
    hooks.finished = [&](const TimedArm& timed) {
      sink.write(timed_row(timed, task, design, setting));
      std::erase(rest.arms, timed.arm);
      ++result.rows;
      result.throttled += timed.result.clocks.throttled() ? 1 : 0;
      result.unsteady += timed.result.run.unsteady() ? 1 : 0;
    };
    run_task(task, design, bench, hooks, result.trouble);
    if (Interrupt::came() && !rest.arms.empty()) result.left.push_back(std::move(rest));
    done += task.seconds;
  }
  return result;
}

}  // namespace moesaic::cli::experiment
