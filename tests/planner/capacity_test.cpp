// SPDX-License-Identifier: Apache-2.0
// The capacity ledger: Eq. 14 and Eq. 16 by hand, overflow, and factors that floating point would
// miss.
#include "moesaic/capacity.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "moesaic/error.hpp"
#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

using Rows = std::vector<std::int64_t>;

CapacityLedger ledger_of(const Rows& counts, std::string_view rule) {
  return capacity_ledger(counts, parse_capacity(rule));
}

TEST(CapacityLedger, TheReportsDrawing) {
  // 1.6 * 2.5 is 4; in binary floating point it can come out above and round up to 5.
  for (const char* factor : {"1.25", "1.6", "1.6:ceil_mean"}) {
    SCOPED_TRACE(factor);
    const CapacityLedger ledger = ledger_of({1, 4, 3, 2}, factor);
    EXPECT_EQ(ledger.capacity, 4);
    EXPECT_EQ(ledger.executed_rows, 16);
    EXPECT_EQ(ledger.overflow_rows, 0);
    EXPECT_EQ(ledger.idle_rows, 6);
    EXPECT_DOUBLE_EQ(ledger.rho_pad, 0.375);
  }
  EXPECT_EQ(ledger_of({1, 4, 3, 2}, "1.600001").capacity, 5);
}

TEST(CapacityLedger, OverflowIsCountedApart) {
  const CapacityLedger ledger = ledger_of({9, 1, 0, 0}, "1.25");
  EXPECT_EQ(ledger.capacity, 4);
  EXPECT_EQ(ledger.overflow_rows, 5);
  EXPECT_EQ(ledger.overflowing_experts, 1);
  EXPECT_EQ(ledger.idle_rows, 11);  // 16 slots hold 4 + 1 rows
  EXPECT_DOUBLE_EQ(ledger.idle_fraction, 11.0 / 21.0);
  EXPECT_DOUBLE_EQ(ledger.rho_pad, 0.375);
}

TEST(CapacityLedger, EightRowRuleOfEquation16) {
  // mean 1000 over 8 source ranks: floor(1.25 * 1000 / 8) = 156, up to 160, times 8.
  const CapacityLedger ledger = ledger_of(Rows(4, 1000), "1.25:eight_row:8");
  EXPECT_EQ(ledger.capacity, 1280);
  EXPECT_EQ(ledger.rule.source_ranks, 8);
  EXPECT_DOUBLE_EQ(ledger.rho_pad, 1.0 - 1000.0 / 1280.0);
  EXPECT_EQ(ledger_of(Rows(4, 1000), "1.25").capacity, 1250);
  // A share of 0 rows reserves nothing, though 0.9 rows were expected.
  EXPECT_EQ(ledger_of({1, 0}, "1.25:eight_row:1").capacity, 0);
  EXPECT_EQ(ledger_of({1, 0}, "1.25:eight_row:1").overflow_rows, 1);
}

TEST(CapacityLedger, ARankReservesWhatItsLayersMeanSays) {
  PlanOptions options;
  options.whole = {.rows = 4096, .experts = 64};
  EXPECT_EQ(plan_layer(Rows{500, 0}, options).capacity.capacity, 80);
  EXPECT_EQ(plan_layer(Rows{0, 0}, options).capacity.capacity, 80);
  EXPECT_EQ(plan_layer(Rows{500, 0}, options).capacity.overflow_rows, 420);
  EXPECT_THROW(capacity_ledger(Rows{1}, Capacity{}, -1), Error);
}

TEST(CapacityLedger, NoRows) {
  const CapacityLedger ledger = ledger_of(Rows(8, 0), "1.25");
  EXPECT_EQ(ledger.capacity, 0);
  EXPECT_EQ(ledger.rho_pad, 0.0);
  EXPECT_EQ(ledger.idle_rows, 0);
}

TEST(CapacityLedger, LargeCountsAreExactOrRefused) {
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  EXPECT_EQ(ledger_of({kBig}, "1.25").capacity, kBig + kBig / 4);
  EXPECT_THROW(ledger_of({kBig}, "3"), Error);
  EXPECT_THROW(ledger_of(Rows(4, kBig / 4), "2.5"), Error);
}

TEST(CapacityLedger, RefusesWithTheFlagsName) {
  for (const char* bad : {"", "x", "0", "-1", "1.25:", "1.25:eight_row", "1.25:eight_row:0"}) {
    try {
      parse_capacity(bad);
      FAIL() << '"' << bad << "\" was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("--capacity"), std::string::npos) << error.what();
    }
  }
}

TEST(CapacityLedger, FittedPlusOverflowIsEveryRow) {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    Rows counts(1 + random() % 64);
    std::int64_t rows = 0;
    for (std::int64_t& count : counts) {
      count = static_cast<std::int64_t>(random() % 2000);
      rows += count;
    }
    Capacity rule;
    rule.factor_millionths = 1 + static_cast<std::int64_t>(random() % 4'000'000);
    const CapacityLedger ledger = capacity_ledger(counts, rule);
    std::int64_t fitted = 0;
    for (const std::int64_t count : counts) fitted += std::min(count, ledger.capacity);
    ASSERT_EQ(fitted + ledger.overflow_rows, rows);
    ASSERT_EQ(fitted + ledger.idle_rows, ledger.executed_rows);
    if (rule.factor_millionths >= 1'000'000) {
      ASSERT_GE(ledger.rho_pad, 0.0);
    }
  }
}

}  // namespace
}  // namespace moesaic::planner
