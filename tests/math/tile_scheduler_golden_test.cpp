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
  std::int64_t max_rows = 0, n = 0, tile_m = 0, tile_n = 0, group_m = 0, few_m = 0, few_n = 0;
  std::int64_t workers = 0;
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
    EXPECT_EQ(fields.size(), 11u) << line;
    if (fields.size() != 11) continue;
    GoldenCase c;
    c.name = fields[0];
    std::size_t next = 1;
    for (std::int64_t* number :
         {&c.max_rows, &c.n, &c.tile_m, &c.tile_n, &c.group_m, &c.few_m, &c.few_n, &c.workers}) {
      *number = std::stoll(fields[next++]);
    }
    c.offs = words<std::int32_t>(fields[9]);
    c.tiles = words<std::string>(fields[10]);
    cases.push_back(c);
  }
  return cases;
}

std::string as_text(const RowTile<>& tile) {
  std::ostringstream text;
  text << tile.expert << '/' << tile.m_tile << '/' << tile.n_tile << '/' << tile.row_begin << '/'
       << tile.rows << '/' << tile.column_begin << '/' << tile.columns
       << (tile.kind == RowTileKind::few ? "/few" : "") << (tile.half ? "/half" : "");
  return text.str();
}

TEST(TileSchedulerGolden, HandCheckedLists) {
  const std::vector<GoldenCase> cases = read_cases();
  ASSERT_EQ(cases.size(), 24u);
  for (const GoldenCase& c : cases) {
    const auto num_experts = static_cast<std::int32_t>(c.offs.size());
    const auto grid = row_tile_grid(num_experts, c.max_rows, c.n,
                                    {c.tile_m, c.tile_n, c.group_m, c.few_m, c.few_n});
    std::vector<std::string> tiles;
    RowTileCursor cursor(CheckedSpan(c.offs), grid, c.workers, 0);
    while (cursor.valid()) {
      tiles.push_back(as_text(cursor.tile()));
      cursor.seek(cursor.index() + 1);
    }
    EXPECT_EQ(tiles, c.tiles) << c.name;
    for (std::size_t i = 0; i < c.tiles.size(); ++i) {
      const RowTileCursor there(CheckedSpan(c.offs), grid, c.workers, static_cast<std::int64_t>(i));
      ASSERT_TRUE(there.valid()) << c.name << ' ' << i;
      EXPECT_EQ(as_text(there.tile()), c.tiles[i]) << c.name << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace moesaic::math
