// SPDX-License-Identifier: Apache-2.0
// What a run of a design would do: shown instead of running, and gone through when running.
#pragma once

#include <string>
#include <vector>

#include "experiment/case_filter.hpp"
#include "experiment/design.hpp"
#include "experiment/pace.hpp"
#include "experiment/result_file.hpp"
#include "experiment/spent.hpp"

namespace moesaic::cli::experiment {

/// A case with the arms of it that are still to run here; torch's are run by scripts/torch_arm.py.
struct Task {
  const Case* one = nullptr;
  std::int64_t order = 0;
  std::vector<Arm> arms;
  Spent expected;
};

/// The tasks of a design in the order of execution, of the cases that `filter` takes; those whose
/// rows are all there are left out. The design must outlive them.
std::vector<Task> tasks_of(const Design& design, const ResultFile& there, const Pace& pace,
                           const CaseFilter& filter = {});

/// Sum of what is expected.
Spent expected_seconds(const std::vector<Task>& tasks);

/// Rows that the cases of a design make here, and those that tasks make.
std::int64_t row_count(const Design& design, const CaseFilter& filter = {});
std::int64_t row_count(const std::vector<Task>& tasks);

/// How the rows of torch are made: one line.
std::string torch_hint(const std::string& command, const std::string& output_path);

/// The plan for people.
std::string plan_text(const Design& design, const std::vector<Task>& tasks,
                      const CaseFilter& filter, const Pace& pace, const std::string& output_path);
/// One JSON line per case that `filter` takes, rows that are there or not, schema
/// moesaic.experiment_case/1; how long it takes is said at this pace.
std::string plan_json(const Design& design, const CaseFilter& filter, const Pace& pace);

/// "about 2 h 10 min"
std::string about(double seconds);

}  // namespace moesaic::cli::experiment
