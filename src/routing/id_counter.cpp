// SPDX-License-Identifier: Apache-2.0
// Bodies of RunFinder and IdCounter.
#include "routing/id_counter.hpp"

#include <algorithm>

namespace moesaic::routing {

void RunFinder::add(std::span<const std::int64_t> row) {
  const bool padding = std::all_of(row.begin(), row.end(), [](std::int64_t id) { return id < 0; });
  const bool same =
      !padding && std::equal(row.begin(), row.end(), previous_.begin(), previous_.end());
  if (same) {
    ++length_;
  } else {
    end_run();
    previous_.assign(row.begin(), row.end());
    start_ = row_;
    length_ = padding ? 0 : 1;
  }
  ++row_;
}

void RunFinder::end_run() {
  if (length_ < kSuspiciousRows) return;
  ++runs_;
  rows_in_runs_ += length_;
  if (length_ > longest_) {
    longest_ = length_;
    longest_start_ = start_;
  }
}

void RunFinder::finish(Collector& collector, const std::string& where) {
  end_run();
  if (runs_ == 0) return;
  collector.warn(rows_in_runs_, " of ", row_, " token rows", where, " lie in ", runs_,
                 runs_ == 1 ? " run" : " runs", " of identical rows, the longest of ", longest_,
                 " from token ", longest_start_, " to ", longest_start_ + longest_ - 1,
                 ": warm-up or dummy tokens that distort the counts");
}

IdCounter::IdCounter(Collector& collector, std::int64_t experts)
    : collector_(collector), experts_(experts), last_row_(static_cast<std::size_t>(experts), 0) {}

void IdCounter::refuse_id(std::int64_t id, std::size_t slot, const std::string& place) const {
  collector_.refuse(place, ", slot ", slot, ": expert id ", id, ", expected 0 to ", experts_ - 1,
                    " for ", experts_, " experts (or less than 0 for padding)",
                    id == experts_ ? "; are the ids 1-based, or --experts one too small?" : "");
}

void IdCounter::add(std::span<const std::int64_t> ids, IdCounts& to,
                    const std::function<std::string()>& place) {
  ++serial_;
  bool repeated = false;
  for (std::size_t slot = 0; slot < ids.size(); ++slot) {
    const std::int64_t id = ids[slot];
    if (id < 0) {
      ++to.invalid_slots;
      ++invalid_slots_;
      continue;
    }
    if (id >= experts_) refuse_id(id, slot, place());
    const auto expert = static_cast<std::size_t>(id);
    ++to.counts[expert];
    repeated |= last_row_[expert] == serial_;
    last_row_[expert] = serial_;
  }
  if (!repeated) return;
  if (rows_with_repeats_++ == 0) first_repeat_ = place();
}

void IdCounter::finish() {
  if (rows_with_repeats_ > 0) {
    collector_.warn("rows that name a repeated expert: ", rows_with_repeats_, ", first ",
                    first_repeat_);
  }
  if (invalid_slots_ > 0) {
    collector_.warn("padding slots (id < 0), counted apart as invalid_slots: ", invalid_slots_);
  }
}

}  // namespace moesaic::routing
