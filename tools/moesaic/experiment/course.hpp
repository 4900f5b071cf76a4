// SPDX-License-Identifier: Apache-2.0
// A course through the tasks of a design: rows as they come, until all is done, time is up or an
// interrupt comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench.hpp"
#include "experiment/case_run.hpp"
#include "row_sink.hpp"

namespace moesaic::cli::experiment {

struct CourseResult {
  std::int64_t rows = 0, throttled = 0, unsteady = 0;  ///< Written, and those of them flagged.
  CaseTrouble trouble;
  std::vector<Task> left;    ///< Not begun, or begun and stopped between arms.
  double left_seconds = 0;   ///< About what they take, as far as finished cases have taught.
  bool out_of_time = false;  ///< --budget ended it; an interrupt else when tasks are left.
  Spent spent, expected;     ///< Of the tasks that were run.
};

/// How a course is run.
struct CourseOptions {
  std::string title;                     ///< Names the work in the progress line.
  std::optional<double> budget_seconds;  ///< Counted from the begin of the account on.
};

/// Runs tasks in order, in this process. Stops before a task that would not end within its budget,
/// and after an interrupt. `account` was begun with the process.
CourseResult run_course(const Design& design, const std::vector<Task>& tasks,
                        const BenchSetting& setting, const CourseOptions& options, Account& account,
                        RowSink& sink);

/// Runs the cases of one process in a fresh process of this program, with these words behind its
/// name, and waits for it. An interrupt that reaches this process alone is passed on.
struct ChildEnd {
  int exit_code = 0;
  int signal = 0;  ///< That ended it; 0: none.
};
ChildEnd run_fresh_process(const std::vector<std::string>& words);

/// The words of a command line with --process and, where given, --budget set anew.
std::vector<std::string> words_for_process(const std::vector<std::string>& words,
                                           std::int64_t process,
                                           std::optional<double> budget_seconds);

}  // namespace moesaic::cli::experiment
