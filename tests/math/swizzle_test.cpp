// SPDX-License-Identifier: Apache-2.0
#include "math/swizzle.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace moesaic::math {
namespace {

constexpr std::array kAll = {Swizzle::none, Swizzle::bytes_32, Swizzle::bytes_64,
                             Swizzle::bytes_128};

static_assert(swizzle_atom_bytes(Swizzle::bytes_128) == 1024);
static_assert(swizzle_atom_bytes(Swizzle::bytes_64) == 512);
static_assert(swizzle_atom_bytes(Swizzle::bytes_32) == 256);
static_assert(swizzle_offset(Swizzle::bytes_128, 128) == 144, "row 1, chunk 0 stands in chunk 1");
static_assert(swizzle_offset(Swizzle::bytes_128, 7 * 128 + 112) == 7 * 128);
static_assert(swizzle_offset(Swizzle::bytes_64, 128) == 144);
static_assert(swizzle_offset(Swizzle::bytes_32, 128) == 144);
static_assert(swizzle_offset(Swizzle::none, 1023) == 1023);

TEST(Swizzle, IsABijectionOfTheAtomAndItsOwnInverse) {
  for (const Swizzle swizzle : kAll) {
    const std::uint32_t atom = swizzle_atom_bytes(swizzle);
    std::vector<int> seen(atom, 0);
    for (std::uint32_t offset = 0; offset < atom; ++offset) {
      const std::uint32_t physical = swizzle_offset(swizzle, offset);
      ASSERT_LT(physical, atom);
      ++seen[physical];
      ASSERT_EQ(unswizzle_offset(swizzle, physical), offset);
      // Rows stay rows.
      ASSERT_EQ(physical / swizzle_row_bytes(swizzle), offset / swizzle_row_bytes(swizzle));
      // The pattern repeats with the atom.
      ASSERT_EQ(swizzle_offset(swizzle, offset + 5 * atom), physical + 5 * atom);
    }
    for (const int count : seen) ASSERT_EQ(count, 1);
  }
}

TEST(Swizzle, KeepsSixteenByteChunksWhole) {
  for (const Swizzle swizzle : kAll) {
    for (std::uint32_t chunk = 0; chunk < swizzle_atom_bytes(swizzle); chunk += 16) {
      const std::uint32_t physical = swizzle_offset(swizzle, chunk);
      ASSERT_EQ(physical % 16, 0u);
      for (std::uint32_t byte = 1; byte < 16; ++byte) {
        ASSERT_EQ(swizzle_offset(swizzle, chunk + byte), physical + byte);
      }
    }
  }
}

// Eight rows of the same 16-byte column are what one 8×8 matrix load touches: 32 banks of 4 bytes.
TEST(Swizzle, EightRowsOfSixteenBytesTouchEveryBankOnce) {
  for (const Swizzle swizzle : {Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128}) {
    const std::uint32_t row_bytes = swizzle_row_bytes(swizzle);
    for (std::uint32_t column = 0; column < row_bytes; column += 16) {
      std::set<std::uint32_t> bank_groups;
      for (std::uint32_t row = 0; row < 8; ++row) {
        bank_groups.insert(swizzle_offset(swizzle, row * row_bytes + column) % 128 / 16);
      }
      EXPECT_EQ(bank_groups.size(), 8u) << row_bytes << "-byte rows, column " << column;
    }
  }
  // Without it they collide: the property above is not for free.
  std::set<std::uint32_t> plain;
  for (std::uint32_t row = 0; row < 8; ++row) plain.insert(row * 128 % 128 / 16);
  EXPECT_EQ(plain.size(), 1u);
}

TEST(Swizzle, GoldenTable) {
  std::ifstream file(MOESAIC_TEST_DATA "/swizzle.csv");
  ASSERT_TRUE(file) << "tests/golden/swizzle.csv cannot be read";
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#' || line[0] == 'w') continue;
    std::istringstream fields(line);
    std::uint32_t width = 0, row = 0, chunk = 0, physical_chunk = 0;
    char comma = ',';
    fields >> width >> comma >> row >> comma >> chunk >> comma >> physical_chunk;
    ASSERT_FALSE(fields.fail()) << line;
    const Swizzle swizzle = width == 128  ? Swizzle::bytes_128
                            : width == 64 ? Swizzle::bytes_64
                                          : Swizzle::bytes_32;
    ASSERT_EQ(swizzle_row_bytes(swizzle), width) << line;
    EXPECT_EQ(swizzle_offset(swizzle, row * width + chunk * 16), row * width + physical_chunk * 16)
        << line;
    ++rows;
  }
  EXPECT_EQ(rows, 8 * (8 + 4 + 2));
}

}  // namespace
}  // namespace moesaic::math
