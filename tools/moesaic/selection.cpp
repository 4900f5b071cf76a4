// SPDX-License-Identifier: Apache-2.0
// Which records are executed.
#include "selection.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "run.hpp"
#include "text.hpp"

namespace moesaic::cli {
namespace {

/// Records that one call runs: every layer of the deepest models in use at one step fits, a
/// recording of many steps does not by accident.
constexpr std::int64_t kMaxRecords = 256;

/// Without a selection: the first record with rows, or the first if none has any. Other records are
/// not kept, so a long recording costs no memory.
class FirstWithRows {
 public:
  void take(routing::Record&& record) {
    ++seen_;
    if (!first_ || (first_->dense() && !record.dense())) first_ = std::move(record);
  }
  routing::Record result(std::vector<std::string>& notes) {
    if (seen_ > 1) {
      notes.push_back("the input has " + grouped_digits(seen_) + " records; running " +
                      place_of(*first_) +
                      ", the first with rows; choose with --layer and --step, "
                      "or --layer all");
    }
    return std::move(*first_);
  }

 private:
  std::int64_t seen_ = 0;
  std::optional<routing::Record> first_;
};

}  // namespace

ChosenRecords choose_records(const InputOptions& input, const planner::TrainingShape* training) {
  const bool selects = input.layer || input.step || input.all_layers || (input.rank && !input.ep);
  ChosenRecords chosen;
  FirstWithRows first;
  std::int64_t selected = 0;
  chosen.report = read_inputs(input, training, [&](routing::Record&& record) {
    if (!selects) {
      first.take(std::move(record));
    } else if (++selected <= kMaxRecords) {
      for (routing::Record& share : shares(std::move(record), input)) {
        chosen.records.push_back(std::move(share));
      }
    }
  });
  if (!selects) chosen.records = shares(first.result(chosen.report.notes), input);
  const std::int64_t total = std::max(selected, static_cast<std::int64_t>(chosen.records.size()));
  if (total > kMaxRecords) {
    throw Error(ErrorCode::invalid_argument,
                "--layer, --step: expected to select at most " + std::to_string(kMaxRecords) +
                    " records for one run, got " + grouped_digits(total) +
                    "; narrow them with --layer, --step and --rank");
  }
  return chosen;
}

}  // namespace moesaic::cli
