// SPDX-License-Identifier: Apache-2.0
// The one door between the readers and the caller's sink: checks every record, applies the filters,
// and gathers what the warnings of a whole source need. Knows no file format.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "moesaic/routing.hpp"
#include "routing/fail.hpp"

namespace moesaic::routing {

class Collector {
 public:
  Collector(std::string source, const ReadOptions& options, const RecordSink& sink);

  [[nodiscard]] const std::string& source() const noexcept { return summary_.source; }
  [[nodiscard]] const ReadOptions& options() const noexcept { return options_; }

  /// What the source is. Throws if the caller's form hint contradicts it.
  void begin(std::string format, Form form);
  /// Whole-source properties for the summary; records carry their own copy.
  void describe(Aggregation aggregation, IdSpace id_space, std::int64_t top_k);
  /// True when the caller said that vectors of counts are end offsets.
  [[nodiscard]] bool offsets_asked() const noexcept { return options_.form == Form::offsets; }
  /// --experts, or a refusal that says why `what` needs it.
  [[nodiscard]] std::int64_t required_experts(std::string_view what) const;

  /// Adds "SOURCE: parts…" to the warnings, once.
  template <class... Parts>
  void warn(const Parts&... parts) {
    add_warning(concat(source(), ": ", parts...));
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(source(), ": ", parts...);
  }

  void emit(Record&& record);
  /// Writes the warnings that need the whole source. Throws if no record reached the sink.
  [[nodiscard]] SourceSummary finish();

 private:
  struct Extent {  // non-zero sums of the layers of one step and rank
    std::int64_t low = 0, low_layer = 0, high = 0, high_layer = 0;
  };
  struct Tally {
    std::int64_t times = 0;
    std::string first;
    void add(const std::string& place) {
      if (times++ == 0) first = place;
    }
  };

  void add_warning(std::string text);
  void check_sizes(const Record& record) const;
  [[nodiscard]] std::int64_t checked_slots(const Record& record) const;
  void note(const Record& record, std::int64_t slots);
  void note_tokens(const Record& record, std::int64_t slots);
  void warn_dense_layers();
  void warn_unequal_layers();
  void warn_tallies();
  [[noreturn]] void refuse_empty() const;

  ReadOptions options_;
  const RecordSink& sink_;
  SourceSummary summary_;
  std::map<std::int64_t, bool> layer_has_rows_;
  std::map<std::pair<std::int64_t, std::int64_t>, Extent> sums_;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen_;
  Tally duplicates_, indivisible_, token_mismatch_, maybe_offsets_;
  std::int64_t indivisible_top_k_ = 0;
  std::int64_t physical_records_ = 0;
};

/// Turns end offsets into counts in place. With `experts` known, one value more means a leading 0;
/// otherwise every value is an end. `place` begins the message of a refusal (offsets that
/// decrease).
void offsets_to_counts(std::vector<std::int64_t>& values, std::optional<std::int64_t> experts,
                       const std::string& place);

/// "layer 3, step 1" (and ", rank 0" where one is known).
[[nodiscard]] std::string place_of(const Record& record);

}  // namespace moesaic::routing
