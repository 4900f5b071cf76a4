// SPDX-License-Identifier: Apache-2.0
// The capacity ledger of a padded batch. How many rows C is, moesaic/capacity.hpp knows.
#include "moesaic/capacity.hpp"

#include <algorithm>

#include "moesaic/planner.hpp"
#include "planner/counts.hpp"

namespace moesaic::planner {

CapacityLedger capacity_ledger(Counts counts, const Capacity& rule) {
  const std::int64_t rows = checked_rows(counts);
  const auto experts = static_cast<std::int64_t>(counts.size());
  CapacityLedger ledger;
  ledger.rule = rule;
  ledger.capacity = capacity_rows(rule, rows, experts);
  ledger.executed_rows = checked_mul(experts, ledger.capacity, "capacity: rows of the batch");
  for (const std::int64_t count : counts) {
    ledger.overflow_rows += std::max<std::int64_t>(0, count - ledger.capacity);
  }
  ledger.idle_rows = ledger.executed_rows - (rows - ledger.overflow_rows);
  if (ledger.executed_rows > 0) {
    ledger.rho_pad = static_cast<double>(static_cast<long double>(ledger.executed_rows - rows) /
                                         static_cast<long double>(ledger.executed_rows));
  }
  return ledger;
}

}  // namespace moesaic::planner
