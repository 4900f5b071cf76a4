// SPDX-License-Identifier: Apache-2.0
// From the words on the command line to the records of a verb.
#include "input.hpp"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "text.hpp"

namespace moesaic::cli {
namespace {

bool is_file(const std::string& input) {
  std::error_code ignored;
  return input == "-" || std::filesystem::exists(input, ignored);
}

/// "a.json: SGLang logical_count JSON; counts, aggregation unstated, ids unstated; 61 layers, …".
std::string describe(const routing::SourceSummary& summary) {
  using routing::to_string;
  std::string text =
      summary.source + ": " + summary.format + "; " + std::string(to_string(summary.form)) +
      ", aggregation " + std::string(to_string(summary.aggregation)) + ", expert ids " +
      std::string(to_string(summary.id_space)) + "; " + grouped_digits(summary.layers) +
      (summary.layers == 1 ? " layer, " : " layers, ") + grouped_digits(summary.records) +
      (summary.records == 1 ? " record, " : " records, ") + grouped_digits(summary.experts) +
      " experts";
  if (summary.top_k > 0) text += ", top-" + std::to_string(summary.top_k);
  return text;
}

class Reader {
 public:
  Reader(const InputOptions& options, const planner::TrainingShape* training,
         const std::function<void(routing::Record&&)>& sink)
      : options_(options), training_(training), sink_(sink) {}

  InputReport run() {
    for (const std::string& input : routing::expand_inputs(options_.inputs)) {
      if (!is_file(input) && routing::looks_like_spec(input)) {
        generate(input);
      } else {
        read(input);
      }
    }
    if (report_.records == 0) refuse_empty();
    return std::move(report_);
  }

 private:
  void read(const std::string& input) {
    if (input.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  "input: expected a file, - or a SPEC, got an empty name");
    }
    routing::ReadOptions read;
    read.num_experts = options_.experts;
    read.layer = options_.layer;
    read.step = options_.step;
    read.form = options_.form;
    const routing::SourceSummary summary =
        routing::read_file(input, read, [this](routing::Record&& record) {
          if (!wants_rank(record)) return;
          require_whole(record);
          if (options_.rows) record = routing::rescale(record, *options_.rows);
          ++report_.records;
          sink_(std::move(record));
        });
    report_.notes.push_back(describe(summary));
    report_.warnings.insert(report_.warnings.end(), summary.warnings.begin(),
                            summary.warnings.end());
  }

  void generate(const std::string& spec) {
    routing::GenerateOptions size{options_.rows, options_.experts, options_.seed};
    if (training_ != nullptr && !spec.starts_with("counts")) {
      // The shape is one rank's, so its experts are the layer's only when ranks share them.
      const std::int64_t ranks = options_.ep.value_or(1);
      if (!size.experts) size.experts = training_->local_experts() * ranks;
      if (!size.rows) size.rows = training_->rank_rows() * ranks;
    }
    routing::Record record = routing::generate(spec, size);
    const bool wanted = (!options_.layer || record.layer == *options_.layer) &&
                        (!options_.step || record.step == *options_.step) && wants_rank(record);
    report_.notes.push_back(record.label.empty() ? record.source + ": as given"
                                                 : record.source + ": " + record.label);
    if (!wanted) {
      report_.notes.back() += "; a SPEC is one record: layer 0, step 0, no rank";
      return;
    }
    ++report_.records;
    sink_(std::move(record));
  }

  /// Without --ep, --rank means the rank that the record itself names.
  [[nodiscard]] bool wants_rank(const routing::Record& record) const {
    return options_.ep || !options_.rank || record.rank == *options_.rank;
  }

  /// A share is taken of a whole layer. What one source rank sent is a part of it, and whether the
  /// parts of all ranks add up the file does not say.
  void require_whole(const routing::Record& record) const {
    if (!options_.ep || record.rank < 0) return;
    throw Error(
        ErrorCode::invalid_argument,
        format("%s: layer %lld, step %lld: --ep %lld: expected records of whole layers, got "
               "one of rank %lld; add the ranks' counts up first, or leave --ep out and "
               "choose with --rank %lld",
               record.source.c_str(), static_cast<long long>(record.layer),
               static_cast<long long>(record.step), static_cast<long long>(*options_.ep),
               static_cast<long long>(record.rank), static_cast<long long>(record.rank)));
  }

  [[noreturn]] void refuse_empty() const {
    std::vector<std::string> asked;
    if (options_.layer) asked.push_back("--layer " + std::to_string(*options_.layer));
    if (options_.step) asked.push_back("--step " + std::to_string(*options_.step));
    if (options_.rank && !options_.ep) {
      asked.push_back("--rank " + std::to_string(*options_.rank) + " (without --ep)");
    }
    if (asked.empty()) asked.emplace_back("the input");
    throw Error(ErrorCode::invalid_argument,
                join(asked, " ") + ": expected at least one record, got none in " +
                    join(options_.inputs, ", ") +
                    (report_.notes.empty() ? "" : " (" + join(report_.notes, "; ") + ")"));
  }

  const InputOptions& options_;
  const planner::TrainingShape* training_;
  const std::function<void(routing::Record&&)>& sink_;
  InputReport report_;
};

}  // namespace

InputReport read_inputs(const InputOptions& options, const planner::TrainingShape* training,
                        const std::function<void(routing::Record&&)>& sink) {
  return Reader(options, training, sink).run();
}

std::vector<routing::Record> shares(routing::Record&& record, const InputOptions& options) {
  std::vector<routing::Record> result;
  if (!options.ep) {
    result.push_back(std::move(record));
    return result;
  }
  if (options.rank) {
    result.push_back(routing::rank_share(record, *options.ep, *options.rank));
    return result;
  }
  for (std::int64_t rank = 0; rank < *options.ep; ++rank) {
    result.push_back(routing::rank_share(record, *options.ep, rank));
  }
  return result;
}

void print_report(const InputReport& report, const std::string& verb, bool with_notes) {
  if (with_notes) {
    for (const std::string& note : report.notes) {
      std::fprintf(stderr, "moesaic %s: %s\n", verb.c_str(), note.c_str());
    }
  }
  for (const std::string& warning : report.warnings) {
    std::fprintf(stderr, "moesaic %s: warning: %s\n", verb.c_str(), warning.c_str());
  }
}

}  // namespace moesaic::cli
