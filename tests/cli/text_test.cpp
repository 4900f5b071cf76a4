// SPDX-License-Identifier: Apache-2.0
// Numbers, quoting, tables, CSV and the progress line.
#include "tools/moesaic/text.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "moesaic/error.hpp"
#include "tools/moesaic/progress.hpp"
#include "tools/moesaic/table.hpp"

namespace moesaic::cli {
namespace {

TEST(Text, GroupsDigits) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1000), "1,000");
  EXPECT_EQ(grouped_digits(-1234567), "-1,234,567");
  EXPECT_EQ(grouped_digits(std::numeric_limits<std::int64_t>::max()), "9,223,372,036,854,775,807");
}

TEST(Text, QuotesForTheShellOnlyWhereNeeded) {
  EXPECT_EQ(shell_quote("counts:1,2"), "counts:1,2");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote(""), "''");
}

TEST(Text, UnitsFollowSize) {
  EXPECT_EQ(duration(2.5), "2.5 s");
  EXPECT_EQ(duration(0.0125), "12.5 ms");
  EXPECT_EQ(duration(3e-6), "3 us");
  EXPECT_EQ(byte_count(24.4e9), "24.4 GB");
  EXPECT_EQ(byte_count(12), "12 B");
  EXPECT_EQ(percent(0.175), "17.5 %");
}

TEST(Text, NearestWordForSlipsAndNothingForOthers) {
  const std::vector<std::string> known = {"--rows", "--tiles", "--json"};
  EXPECT_EQ(nearest_word("--rowz", known), "--rows");
  EXPECT_EQ(nearest_word("--tile-shape", std::vector<std::string>{"--tile"}), "--tile");
  EXPECT_EQ(nearest_word("--something-else-entirely", known), "");
}

TEST(Table, AlignsByCodePoints) {
  Table table({{"name", Align::left}, {"n"}});
  table.add({"é", "1"});
  table.add({"abcdef", "22"});
  EXPECT_EQ(table.text(), "name     n\né        1\nabcdef  22\n");
  EXPECT_THROW(table.add({"one"}), Error);
}

TEST(Csv, QuotesAndNumbers) {
  EXPECT_EQ(csv_line(std::vector<std::string>{"a", "b,c", "d\"e", ""}), "a,\"b,c\",\"d\"\"e\",\n");
  EXPECT_EQ(csv_number(0.1), "0.1");
  EXPECT_EQ(csv_number(1.0 / 0.0), "");
}

TEST(Progress, LineShowsShareAndTimeLeft) {
  EXPECT_EQ(progress_line("run", 0.5, 6, "layer 3"),
            "run [##########..........]  50 %, 6 s left: layer 3");
  EXPECT_EQ(progress_line("run", 0, 3, "x"),
            "run [....................]   0 %, time left unknown: x");
  EXPECT_EQ(progress_line("run", 7, 3, "x").substr(0, 26), "run [####################]");
}

}  // namespace
}  // namespace moesaic::cli
