// SPDX-License-Identifier: Apache-2.0
// From rows of expert ids to counts, with the traps of id dumps: padding, ids out of range,
// repeated experts, runs of identical rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "routing/collector.hpp"

namespace moesaic::routing {

/// Bounds what the shape of an id file can make its reader allocate (128 MiB of counts).
inline constexpr std::int64_t kMaxLayersTimesExperts = std::int64_t{1} << 24;
/// Most experts per token; real models stay below 64.
inline constexpr std::int64_t kMaxTopK = 4096;

/// Finds runs of identical rows, the trace of warm-up and dummy tokens.
class RunFinder {
 public:
  static constexpr std::int64_t kSuspiciousRows = 64;

  /// Rows that hold padding alone end a run.
  void add(std::span<const std::int64_t> row);
  /// Warns of what was found; `where` is "" or " of layer 3".
  void finish(Collector& collector, const std::string& where);

 private:
  void end_run();
  std::vector<std::int64_t> previous_;
  std::int64_t row_ = 0, start_ = 0, length_ = 0;
  std::int64_t runs_ = 0, rows_in_runs_ = 0, longest_ = 0, longest_start_ = 0;
};

/// Counts of one layer.
struct IdCounts {
  explicit IdCounts(std::int64_t experts) : counts(static_cast<std::size_t>(experts), 0) {}
  std::vector<std::int64_t> counts;
  std::int64_t invalid_slots = 0;
};

/// Adds rows of ids to IdCounts, and remembers repeated experts over all layers of a source.
class IdCounter {
 public:
  IdCounter(Collector& collector, std::int64_t experts);

  /// One token's ids in one layer; `place()` names them ("token 5, layer 0") if one is out of
  /// range.
  void add(std::span<const std::int64_t> ids, IdCounts& to,
           const std::function<std::string()>& place);
  /// Warns of repeated experts and of padding.
  void finish();

 private:
  [[noreturn]] void refuse_id(std::int64_t id, std::size_t slot, const std::string& place) const;

  Collector& collector_;
  std::int64_t experts_;
  std::vector<std::int64_t> last_row_;  // [E], serial number of the row that last named the expert
  std::int64_t serial_ = 0;
  std::int64_t rows_with_repeats_ = 0, invalid_slots_ = 0;
  std::string first_repeat_;
};

}  // namespace moesaic::routing
