// SPDX-License-Identifier: Apache-2.0
// See plan_process.hpp.

#include "process/plan_process.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "process/process.hpp"

namespace moesaic::bench {
namespace {

/// The file and where it lies, alive as long as an arm needs it.
struct Input {
  TemporaryFolder folder;
  PlanFile file;
};

void compare(std::int64_t record, std::int64_t got, std::int64_t want, CheckResult& result) {
  ++result.elements;
  if (got != want) {
    ++result.mismatches;
    if (!result.first) {
      result.first = Mismatch{"useful_rows of a record", -1, record, 0, static_cast<double>(got),
                              static_cast<double>(want), 0};
    }
  }
}

/// Finds every `"useful_rows":N` of a JSON text that comes in pieces.
class UsefulRows {
 public:
  void take(std::string_view piece) {
    text_ += piece;
    std::size_t done = 0;
    for (;;) {
      const std::size_t key = text_.find(kKey, done);
      const std::size_t value = key + kKey.size();
      // The number is whole once something that is no digit follows it.
      const std::size_t end = key == std::string::npos
                                  ? std::string::npos
                                  : text_.find_first_not_of("0123456789", value);
      if (end == std::string::npos) {
        done = key == std::string::npos ? text_.size() - std::min(text_.size(), kKey.size()) : key;
        break;
      }
      std::int64_t rows = -1;
      std::from_chars(text_.data() + value, text_.data() + end, rows);
      found_.push_back(rows);
      done = end;
    }
    text_.erase(0, done);
  }
  [[nodiscard]] const std::vector<std::int64_t>& found() const noexcept { return found_; }

 private:
  static constexpr std::string_view kKey = "\"useful_rows\":";
  std::string text_;
  std::vector<std::int64_t> found_;
};

/// Every record in its place, and no record more.
CheckResult check_json(const PlanFile& file, const UsefulRows& output) {
  CheckResult result;
  const std::size_t count = std::max(file.rows.size(), output.found().size());
  for (std::size_t i = 0; i < count; ++i) {
    compare(static_cast<std::int64_t>(i), i < output.found().size() ? output.found()[i] : -1,
            i < file.rows.size() ? file.rows[i] : -1, result);
  }
  return result;
}

std::optional<std::int64_t> whole_number(std::string word) {
  std::erase(word, ',');
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return value;
}

/// The rows of the table that `plan` prints: layer, step, rank, rows, ... Each is compared with the
/// record that it names.
CheckResult check_text(const PlanFile& file, const std::string& output) {
  CheckResult result;
  std::istringstream lines(output);
  std::string line;
  bool in_table = false;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string layer_word;
    std::string step_word;
    std::string rank_word;
    std::string rows_word;
    words >> layer_word >> step_word >> rank_word >> rows_word;
    if (layer_word == "layer" && step_word == "step" && rows_word == "rows") {
      in_table = true;
      continue;
    }
    const auto layer = whole_number(layer_word);
    const auto step = whole_number(step_word);
    const auto rows = whole_number(rows_word);
    if (!in_table || !layer || !step || !rows) {
      in_table = in_table && line.find_first_of("0123456789") == std::string::npos && !line.empty();
      continue;
    }
    const std::int64_t record = *step * kLayers + *layer;
    const bool known = record >= 0 && record < static_cast<std::int64_t>(file.rows.size());
    compare(record, *rows, known ? file.rows[static_cast<std::size_t>(record)] : -1, result);
  }
  return result;
}

class PlanCommand {
 public:
  PlanCommand(std::string moesaic, std::shared_ptr<Input> input, bool json)
      : words_{std::move(moesaic), "plan", input->file.path}, input_(std::move(input)) {
    if (json) {
      words_.emplace_back("--json");
    }
  }

  void run(const OutputSink& sink = {}) {
    const Finished finished = run_process(words_, sink);
    if (finished.exit_code != 0) {
      throw Error(ErrorCode::device_failure, words_[0] + " plan " + input_->file.format +
                                                 ": expected exit code 0, got " +
                                                 std::to_string(finished.exit_code));
    }
    memory_.peak_bytes = std::max(memory_.peak_bytes, finished.memory.peak_bytes);
    memory_.floor_bytes = std::max(memory_.floor_bytes, finished.memory.floor_bytes);
  }
  [[nodiscard]] CheckResult check(bool json) {
    if (json) {
      UsefulRows rows;
      run([&rows](std::string_view piece) { rows.take(piece); });
      return check_json(input_->file, rows);
    }
    std::string text;
    run([&text](std::string_view piece) { text += piece; });
    return check_text(input_->file, text);
  }
  [[nodiscard]] PeakMemory memory() const { return memory_; }

 private:
  std::vector<std::string> words_;
  std::shared_ptr<Input> input_;
  PeakMemory memory_;
};

Arm plan_arm(const std::string& moesaic, const std::shared_ptr<Input>& input, bool json) {
  const auto command = std::make_shared<PlanCommand>(moesaic, input, json);
  const PlanFile& file = input->file;
  Arm arm;
  arm.name = json ? "json" : "text";
  arm.implementation = "moesaic plan";
  arm.problem = {{"format", file.format},    {"steps", file.steps},           {"layers", kLayers},
                 {"experts", kLayerExperts}, {"file_bytes", file.size_bytes}, {"output", arm.name}};
  arm.check_reference = json ? "useful_rows of every record against the generator's"
                             : "rows of every printed table line against the generator's";
  arm.check = [command, json] { return command->check(json); };
  arm.run = [command] { command->run(); };
  arm.memory = [command] { return command->memory(); };
  return arm;
}

}  // namespace

Comparison plan_process(std::string name, std::string moesaic,
                        std::function<PlanFile(const std::filesystem::path&)> write) {
  Comparison comparison{std::move(name), {kPlanSpec, 0, {}}, {"text", "json"}, {}};
  comparison.prepare = [moesaic = std::move(moesaic), write = std::move(write)] {
    const auto input = std::make_shared<Input>();
    input->file = write(input->folder.path());
    return std::vector<Arm>{plan_arm(moesaic, input, false), plan_arm(moesaic, input, true)};
  };
  return comparison;
}

}  // namespace moesaic::bench
