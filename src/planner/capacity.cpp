// SPDX-License-Identifier: Apache-2.0
// The capacity ledger of a padded batch. How many rows C is, moesaic/capacity.hpp knows.
#include "moesaic/capacity.hpp"

#include <string>

#include "moesaic/planner.hpp"
#include "planner/counts.hpp"
#include "planner/text.hpp"

namespace moesaic::planner {

CapacityLedger capacity_ledger(Counts counts, const Capacity& rule) {
  const std::int64_t rows = checked_rows(counts);
  return capacity_ledger(counts, rule,
                         capacity_rows(rule, rows, static_cast<std::int64_t>(counts.size())));
}

CapacityLedger capacity_ledger(Counts counts, const Capacity& rule, std::int64_t capacity) {
  const std::int64_t rows = checked_rows(counts);
  if (capacity < 0) refuse("capacity: expected at least 0 rows, got " + std::to_string(capacity));
  const auto experts = static_cast<std::int64_t>(counts.size());
  CapacityLedger ledger;
  ledger.rule = rule;
  ledger.capacity = capacity;
  ledger.executed_rows =
      checked_mul(experts, ledger.capacity, "counts (--rows): rows of the padded batch, E * C");
  for (const std::int64_t count : counts) {
    if (count <= ledger.capacity) continue;
    ledger.overflow_rows += count - ledger.capacity;
    ++ledger.overflowing_experts;
  }
  ledger.idle_rows = ledger.executed_rows - (rows - ledger.overflow_rows);
  if (ledger.executed_rows > 0) {
    ledger.rho_pad = static_cast<double>(static_cast<long double>(ledger.executed_rows - rows) /
                                         static_cast<long double>(ledger.executed_rows));
  }
  const std::int64_t run = checked_add(ledger.executed_rows, ledger.overflow_rows,
                                       "counts (--rows): E * C and the overflow rows");
  if (run > 0) {
    ledger.idle_fraction = static_cast<double>(static_cast<long double>(ledger.idle_rows) /
                                               static_cast<long double>(run));
  }
  return ledger;
}

}  // namespace moesaic::planner
