// SPDX-License-Identifier: Apache-2.0
// Capacity rules: exact decimals, both rules by hand, refusals, and text that reads back.
#include "moesaic/capacity.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "support/expect_error.hpp"

namespace moesaic {
namespace {

using testing::expect_error;

TEST(ParseCapacity, ReadsEveryForm) {
  const Capacity plain = parse_capacity("1.25");
  EXPECT_EQ(plain.rule, CapacityRule::ceil_mean);
  EXPECT_EQ(plain.factor_millionths, 1'250'000);
  EXPECT_EQ(plain.source_ranks, 1);
  EXPECT_EQ(parse_capacity("1.25:ceil_mean"), plain);
  EXPECT_EQ(parse_capacity("2").factor_millionths, 2'000'000);
  EXPECT_EQ(parse_capacity("0.000001").factor_millionths, 1);
  EXPECT_EQ(parse_capacity("1.1").factor_millionths, 1'100'000);
  EXPECT_EQ(parse_capacity("01.50").factor_millionths, 1'500'000);
  const Capacity ranks = parse_capacity("1.5:eight_row:16");
  EXPECT_EQ(ranks.rule, CapacityRule::eight_row);
  EXPECT_EQ(ranks.factor_millionths, 1'500'000);
  EXPECT_EQ(ranks.source_ranks, 16);
  EXPECT_DOUBLE_EQ(ranks.factor(), 1.5);
}

TEST(ParseCapacity, RefusesWithTheFlagAndTheText) {
  for (const std::string text : {"",
                                 "0",
                                 "0.0",
                                 "-1",
                                 "+1",
                                 "1.",
                                 ".5",
                                 "1.25x",
                                 " 1.25",
                                 "1.25 ",
                                 "1,25",
                                 "nan",
                                 "inf",
                                 "1e3",
                                 "1.2500000",
                                 "1.-5",
                                 "1:",
                                 "1:half",
                                 "1:eight_row",
                                 "1:eight_row:",
                                 "1:eight_row:0",
                                 "1:eight_row:-2",
                                 "1:eight_row:x",
                                 "1:eight_row:8:9",
                                 "1:ceil_mean:8",
                                 ":ceil_mean",
                                 "1::eight_row:8",
                                 "99999999999999999999",
                                 "1:eight_row:99999999999999999999",
                                 "0.0000001",
                                 "1.25:CEIL_MEAN"}) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::invalid_argument, {"--capacity", "\"" + text + "\"", "eight_row"},
                 [&] { parse_capacity(text); });
  }
  expect_error(ErrorCode::invalid_argument, {"capacity_factor"},
               [] { parse_capacity("x", "capacity_factor"); });
}

TEST(ParseCapacity, PrintsWhatItReadsBack) {
  for (const char* text : {"1.25:ceil_mean", "1:ceil_mean", "0.000001:ceil_mean", "12.5:ceil_mean",
                           "1.1:eight_row:8", "1000000:eight_row:1000000"}) {
    EXPECT_EQ(to_string(parse_capacity(text)), text);
    EXPECT_EQ(parse_capacity(to_string(parse_capacity(text))), parse_capacity(text));
  }
}

TEST(CapacityRows, CeilMeanByHand) {
  const auto rows = [](const char* factor, std::int64_t m, std::int64_t experts) {
    return capacity_rows(parse_capacity(factor), m, experts);
  };
  EXPECT_EQ(rows("1.25", 10, 4), 4);  // 3.125
  EXPECT_EQ(rows("1", 10, 4), 3);     // 2.5
  EXPECT_EQ(rows("1", 8, 4), 2);
  EXPECT_EQ(rows("1.6", 5, 2), 4);    // 4 exactly, which 1.6 in binary exceeds
  EXPECT_EQ(rows("1.1", 10, 1), 11);  // 11 exactly, which 1.1 * 10 in binary exceeds
  EXPECT_EQ(rows("1.25", 0, 4), 0);
  EXPECT_EQ(rows("0.000001", 1, 4096), 1);
  EXPECT_EQ(rows("1.25", 2'147'483'647, 1), 2'684'354'559);  // 2684354558.75
  EXPECT_EQ(rows("1", 4'000'000'000'000'000'000, 2), 2'000'000'000'000'000'000);
}

TEST(CapacityRows, EightRowByHand) {
  const auto rows = [](const char* factor, std::int64_t m, std::int64_t experts) {
    return capacity_rows(parse_capacity(factor), m, experts);
  };
  EXPECT_EQ(rows("1:eight_row:1", 32, 4), 8);
  EXPECT_EQ(rows("1.1:eight_row:1", 32, 4), 8);     // floor(8.8) = 8
  EXPECT_EQ(rows("1.125:eight_row:1", 32, 4), 16);  // floor(9) = 9
  EXPECT_EQ(rows("1:eight_row:4", 64, 2), 32);      // 4 * 8 * ceil(floor(8) / 8)
  EXPECT_EQ(rows("1:eight_row:3", 64, 2), 48);      // 3 * 8 * ceil(floor(10.67) / 8)
  EXPECT_EQ(rows("1:eight_row:64", 64, 2), 0);      // floor(0.5) = 0
  EXPECT_EQ(rows("1.25:eight_row:8", 65'536, 64), 8 * 160);
  // The mean is not rounded before it is shared: 2.5 * 3.2 / 1 = 8, not 3 * 3.2 or 2 * 3.2.
  EXPECT_EQ(rows("3.2:eight_row:1", 5, 2), 8);
}

TEST(CapacityRows, Refusals) {
  Capacity capacity;
  EXPECT_THROW(capacity_rows(capacity, -1, 4), Error);
  EXPECT_THROW(capacity_rows(capacity, 1, 0), Error);
  EXPECT_THROW(capacity_rows(capacity, 1, -4), Error);
  capacity.factor_millionths = 0;
  EXPECT_THROW(capacity_rows(capacity, 1, 1), Error);
  capacity.factor_millionths = -1;
  EXPECT_THROW(capacity_rows(capacity, 1, 1), Error);
  capacity.factor_millionths = 4'000'000;
  expect_error(ErrorCode::invalid_argument, {"capacity", "4"},
               [&] { capacity_rows(capacity, std::numeric_limits<std::int64_t>::max(), 1); });
  capacity.rule = CapacityRule::eight_row;
  expect_error(ErrorCode::invalid_argument, {"capacity"},
               [&] { capacity_rows(capacity, std::numeric_limits<std::int64_t>::max(), 1); });
  capacity.source_ranks = 0;
  EXPECT_THROW(capacity_rows(capacity, 8, 1), Error);
}

}  // namespace
}  // namespace moesaic
