// SPDX-License-Identifier: Apache-2.0
// The copies of 128 threads against the definition: panels as a copy box would write them, from
// rows that lie anywhere, zeros where there is no row, no read of an index or an element that is
// not there.
#include "math/row_gather.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "math/checked_span.hpp"
#include "math/integer.hpp"

namespace moesaic::math {
namespace {

constexpr std::int32_t kMinOf = -2147483647 - 1;
constexpr std::uint16_t kStale = 0xFFFF;  // NaN: what was in shared memory before

static_assert(kGatherChunks == 8 && kGatherLines == 16 && kGatherPassBytes == 2048);
static_assert(gather_line(127, 0) == 15 && gather_line(8, 3) == 49 && gather_column(9) == 8);
// Line 1: its first chunk stands where the swizzle of an atom's second line puts it.
static_assert(gather_offset(8, 0) == 128 + 16 && gather_offset(8, 1) == 128 + 16 + 2048);
static_assert(gathered_bytes(0, 56, 64) == 16 && gathered_bytes(0, 64, 64) == 0);
static_assert(gathered_bytes(-1, 0, 64) == 0);

/// x [rows, columns] and which row every row of the buffer is.
struct Gather {
  std::int32_t num_rows, columns;
  std::vector<std::uint16_t> x;
  std::vector<std::int32_t> x_rows;

  [[nodiscard]] std::uint16_t element(std::int32_t row, std::int32_t column) const {
    return x[static_cast<std::size_t>(row * columns + column)];
  }
};

Gather make(std::int32_t num_rows, std::int32_t columns, std::int32_t buffer_rows,
            std::uint32_t seed) {
  std::mt19937 random(seed);
  Gather gather{num_rows, columns, {}, {}};
  gather.x.resize(static_cast<std::size_t>(num_rows * columns));
  for (std::uint16_t& element : gather.x)
    element = static_cast<std::uint16_t>(random() % 0x7F00 + 1);
  gather.x_rows.resize(static_cast<std::size_t>(buffer_rows));
  const std::array<std::int32_t, 4> wrong = {-1, num_rows, kMinOf, kMaxOf<std::int32_t>};
  for (std::int32_t& row : gather.x_rows) {
    const std::uint32_t draw = random() % 8;
    row = draw < wrong.size()
              ? wrong[draw]
              : static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(num_rows));
  }
  return gather;
}

/// What 128 threads leave in panels of `lines` lines: columns from `column` on of `count` rows of
/// the buffer from `begin` on.
std::vector<std::uint16_t> copy(const Gather& gather, std::int32_t lines, std::int32_t panels,
                                std::int64_t begin, std::int32_t count, std::int32_t column) {
  const CheckedSpan x_rows(gather.x_rows);
  const CheckedSpan x(gather.x);
  std::vector<std::uint16_t> memory(static_cast<std::size_t>(lines * panels * kPanelElems), kStale);
  std::vector<int> written(memory.size(), 0);
  for (std::int32_t thread = 0; thread < kGatherThreads; ++thread) {
    for (std::int32_t pass = 0; pass < lines / kGatherLines; ++pass) {
      const std::int32_t row = gathered_row(
          gathered_index(x_rows, begin, gather_line(thread, pass), count), gather.num_rows);
      for (std::int32_t panel = 0; panel < panels; ++panel) {
        const std::int32_t from = column + panel * kPanelElems + gather_column(thread);
        const std::uint32_t to =
            static_cast<std::uint32_t>(panel * panel_bytes(lines)) + gather_offset(thread, pass);
        EXPECT_EQ(to % kGatherBytes, 0u);
        const std::int32_t bytes = gathered_bytes(row, from, gather.columns);
        for (std::int32_t i = 0; i < kGatherElems; ++i) {
          const std::size_t at = to / 2 + static_cast<std::size_t>(i);
          memory.at(at) = 2 * i < bytes ? x[std::int64_t{row} * gather.columns + from + i] : 0;
          ++written[at];
        }
      }
    }
  }
  EXPECT_TRUE(std::all_of(written.begin(), written.end(), [](int times) { return times == 1; }));
  return memory;
}

/// The same by definition: one element at a time, where the product looks for it.
void expect_panels(const Gather& gather, std::int32_t lines, std::int32_t panels,
                   std::int64_t begin, std::int32_t count, std::int32_t column) {
  const std::vector<std::uint16_t> memory = copy(gather, lines, panels, begin, count, column);
  for (std::int32_t line = 0; line < lines; ++line) {
    for (std::int32_t across = 0; across < panels * kPanelElems; ++across) {
      std::uint16_t want = 0;
      if (line < count && column + across < gather.columns) {
        const std::int32_t row = gather.x_rows[static_cast<std::size_t>(begin + line)];
        if (row >= 0 && row < gather.num_rows) want = gather.element(row, column + across);
      }
      const auto at = static_cast<std::size_t>(panel_offset(line, across, lines) / 2);
      ASSERT_EQ(memory[at], want) << "line " << line << " column " << column + across;
    }
  }
}

// A stage of a large tile, of a tile of few rows and of fewest, and of a weight gradient, whose
// panels are side by side; K ends inside a panel, a segment inside the tile, and at the last index.
TEST(RowGather, PanelsAreWhatABoxWouldWrite) {
  constexpr std::int32_t kBuffer = 300;
  for (const std::int32_t columns : {8, 64, 72, 200, 256, 456}) {
    const Gather gather = make(37, columns, kBuffer, static_cast<std::uint32_t>(columns));
    for (const auto& [lines, panels] : {std::pair{128, 1}, {64, 2}, {16, 2}, {64, 4}}) {
      for (const std::int32_t count : {1, 15, 16, 17, lines - 1, lines}) {
        if (count > lines) continue;
        for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{kBuffer - count}}) {
          for (std::int32_t column = 0; column < columns; column += panels * kPanelElems) {
            SCOPED_TRACE(std::to_string(lines) + " lines, " + std::to_string(count) +
                         " rows from " + std::to_string(begin));
            expect_panels(gather, lines, panels, begin, count, column);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

// Eight threads side by side read 128 bytes of one row, and write one line of the panel: 32 banks.
TEST(RowGather, EightThreadsHaveALine) {
  for (std::int32_t thread = 0; thread < kGatherThreads; thread += kGatherChunks) {
    for (std::int32_t pass = 0; pass < 8; ++pass) {
      std::uint32_t chunks = 0;
      for (std::int32_t i = 0; i < kGatherChunks; ++i) {
        EXPECT_EQ(gather_line(thread + i, pass), gather_line(thread, pass));
        EXPECT_EQ(gather_column(thread + i), i * kGatherElems);
        const std::uint32_t to = gather_offset(thread + i, pass);
        EXPECT_EQ(to / kPanelLineBytes, static_cast<std::uint32_t>(gather_line(thread, pass)));
        chunks |= 1u << (to % kPanelLineBytes / kGatherBytes);
      }
      EXPECT_EQ(chunks, 0xFFu);
    }
  }
}

// Every line's index is read by one lane of the warp that copies it, and asked for there.
TEST(RowGather, LanesKeepTheIndicesOfTheirWarp) {
  std::vector<int> kept(128, 0);
  for (std::int32_t thread = 0; thread < kGatherThreads; ++thread) {
    ++kept.at(static_cast<std::size_t>(gather_kept_line(thread)));
    for (std::int32_t pass = 0; pass < 8; ++pass) {
      const std::int32_t keeper = gather_keeper(thread, pass);
      ASSERT_TRUE(0 <= keeper && keeper < 32) << thread << " " << pass;
      EXPECT_EQ(gather_kept_line(thread / 32 * 32 + keeper), gather_line(thread, pass));
    }
  }
  EXPECT_EQ(kept, std::vector<int>(128, 1));
}

TEST(RowGather, WrongIndicesAreRowsOfZeros) {
  const std::vector<std::int32_t> x_rows = {-1, 5, 4, kMaxOf<std::int32_t>, kMinOf, 0};
  const std::array<std::int32_t, 6> want = {-1, -1, 4, -1, -1, 0};
  const CheckedSpan rows(x_rows);
  for (std::int32_t line = 0; line < 6; ++line) {
    const std::int32_t index = gathered_index(rows, 0, line, 6);
    EXPECT_EQ(gathered_row(index, 5), want.at(static_cast<std::size_t>(line))) << line;
    EXPECT_EQ(gathered_row(index, 0), -1) << "no rows at all";
  }
  EXPECT_EQ(gathered_index(rows, 3, 3, 3), -1) << "not read: there is no index 6";
  EXPECT_EQ(gathered_index(rows, 70, 0, -64), -1) << "a block past the segment";
}

}  // namespace
}  // namespace moesaic::math
