// SPDX-License-Identifier: Apache-2.0
// The hand-checked tile lists of tests/golden/offs_to_tiles.csv.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "math/checked_span.hpp"
#include "math/tile_scheduler.hpp"

namespace moesaic::math {
namespace {

struct GoldenCase {
  std::string name;
  std::int64_t max_rows = 0, n = 0, tile_m = 0, tile_n = 0, group_m = 0;
  std::vector<std::int32_t> offs;
  std::vector<std::string> tiles;
};

template <class T>
std::vector<T> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<T> all;
  for (T word; stream >> word;) all.push_back(word);
  return all;
}

std::vector<GoldenCase> read_cases() {
  std::ifstream file(MOESAIC_TEST_DATA "/offs_to_tiles.csv");
  EXPECT_TRUE(file) << "tests/golden/offs_to_tiles.csv cannot be read";
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.rfind("name,", 0) == 0) continue;
    std::vector<std::string> fields(1);
    for (const char c : line) {
      if (c == ',') {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    EXPECT_EQ(fields.size(), 8u) << line;
    if (fields.size() != 8) continue;
    cases.push_back({fields[0], std::stoll(fields[1]), std::stoll(fields[2]), std::stoll(fields[3]),
                     std::stoll(fields[4]), std::stoll(fields[5]), words<std::int32_t>(fields[6]),
                     words<std::string>(fields[7])});
  }
  return cases;
}

std::string as_text(const RowTile<>& tile) {
  std::ostringstream text;
  text << tile.expert << '/' << tile.m_tile << '/' << tile.n_tile << '/' << tile.row_begin << '/'
       << tile.rows << '/' << tile.column_begin << '/' << tile.columns;
  return text.str();
}

TEST(TileSchedulerGolden, HandCheckedLists) {
  const std::vector<GoldenCase> cases = read_cases();
  ASSERT_EQ(cases.size(), 13u);
  for (const GoldenCase& c : cases) {
    const auto num_experts = static_cast<std::int32_t>(c.offs.size());
    const auto grid = row_tile_grid(num_experts, c.max_rows, c.n, c.tile_m, c.tile_n, c.group_m);
    std::vector<std::string> by_cursor;
    for (RowTileCursor cursor(CheckedSpan(c.offs), grid, 0, 1); cursor.valid(); cursor.advance()) {
      by_cursor.push_back(as_text(cursor.tile()));
    }
    EXPECT_EQ(by_cursor, c.tiles) << c.name;

    std::vector<std::int64_t> prefix(c.offs.size());
    build_row_tile_prefix(CheckedSpan(c.offs), grid, CheckedSpan(prefix));
    std::vector<std::string> by_prefix;
    for (std::int64_t index = 0;; ++index) {
      const RowTile<> tile = find_row_tile(CheckedSpan(prefix), CheckedSpan(c.offs), grid, index);
      if (!tile.valid()) break;
      by_prefix.push_back(as_text(tile));
    }
    EXPECT_EQ(by_prefix, c.tiles) << c.name;
  }
}

}  // namespace
}  // namespace moesaic::math
