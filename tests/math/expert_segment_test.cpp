// SPDX-License-Identifier: Apache-2.0
#include "math/expert_segment.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "math/checked_span.hpp"

namespace moesaic::math {
namespace {

// Counts 1, 4, 3, 2 of the report's toy layer in a buffer of 12 rows.
constexpr std::array<std::int32_t, 4> kToy = {1, 5, 8, 10};
static_assert(expert_rows(kToy.data(), 0, 12) == RowRange{0, 1});
static_assert(expert_rows(kToy.data(), 3, 12) == RowRange{8, 10});
static_assert(scan_faults(kToy.data(), 4, 12) == 0 && tail_begin(kToy.data(), 4, 12) == 10);
static_assert(expert_rows(kToy.data(), 3, 10).rows() == 2, "offs[E-1] may equal M");
static_assert(tail_begin(kToy.data(), 0, 12) == 0, "no experts: all rows are tail");

struct Case {
  const char* what;
  std::vector<std::int32_t> offs;
  std::int64_t max_rows;
  std::vector<std::int64_t> rows;  // per expert
  Fault fault;                     // lowest
  std::int64_t tail;
};

const std::vector<Case>& cases() {
  constexpr auto kDown = FaultKind::offs_not_monotonic;
  constexpr auto kOut = FaultKind::offs_out_of_range;
  constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t kIntMin = std::numeric_limits<std::int32_t>::min();
  static const std::vector<Case> kCases = {
      {"all empty", {0, 0, 0}, 8, {0, 0, 0}, {}, 0},
      {"no rows at all", {0, 0}, 0, {0, 0}, {}, 0},
      {"empty first and last", {0, 5, 5}, 5, {0, 5, 0}, {}, 5},
      {"decreasing", {4, 2, 6}, 8, {4, 0, 4}, {kDown, 1, 2}, 6},
      {"decreasing at the end: the tail begins behind the segments before it",
       {4, 6, 2},
       8,
       {4, 2, 0},
       {kDown, 2, 2},
       6},
      {"negative spoils its own segment and the next", {-1, 3, 5}, 8, {0, 0, 2}, {kOut, 0, -1}, 5},
      {"negative in the middle", {3, -7, 5, 6}, 8, {3, 0, 0, 1}, {kOut, 1, -7}, 6},
      {"past M spoils its own and the next", {2, 9, 5, 8}, 8, {2, 0, 0, 3}, {kOut, 1, 9}, 8},
      {"past M at the end: no tail is known", {2, 9}, 8, {2, 0}, {kOut, 1, 9}, 8},
      {"negative at the end: no tail is known", {2, -9}, 8, {2, 0}, {kOut, 1, -9}, 8},
      {"negative is out of range, not decreasing", {5, -1}, 8, {5, 0}, {kOut, 1, -1}, 8},
      {"a bad start alone is no second fault", {9, 0, 4}, 8, {0, 0, 4}, {kOut, 0, 9}, 4},
      {"extremes", {kIntMin, kIntMax, 3}, 8, {0, 0, 0}, {kOut, 0, kIntMin}, 3},
      {"largest legal offset", {kIntMax}, std::int64_t{1} << 40, {kIntMax}, {}, kIntMax},
  };
  return kCases;
}

TEST(ExpertSegment, HandMadeCases) {
  for (const Case& c : cases()) {
    const CheckedSpan offs(c.offs);
    const auto num_experts = static_cast<std::int32_t>(c.offs.size());
    for (std::int32_t e = 0; e < num_experts; ++e) {
      const RowRange range = expert_rows(offs, e, c.max_rows);
      EXPECT_EQ(range.rows(), c.rows[e]) << c.what << ", expert " << e;
      EXPECT_EQ(range.empty(), c.rows[e] == 0) << c.what << ", expert " << e;
      if (!range.empty()) {
        EXPECT_EQ(range.end, c.offs[e]) << c.what;
      }
    }
    EXPECT_EQ(decode_fault(scan_faults(offs, num_experts, c.max_rows)), c.fault) << c.what;
    EXPECT_EQ(tail_begin(offs, num_experts, c.max_rows), c.tail) << c.what;
  }
}

// A segment that is valid in itself may reach past a wrong last offset: its rows are no tail.
TEST(ExpertSegment, TheTailBeginsBehindEveryValidSegment) {
  const std::vector<std::int32_t> offs = {6, 2};
  EXPECT_EQ(tail_begin(CheckedSpan(offs), 2, 8), 6);
  const std::vector<std::int32_t> unknown = {6, 9};
  EXPECT_EQ(tail_begin(CheckedSpan(unknown), 2, 8), 8) << "the last offset is past the buffer";
}

TEST(ExpertSegment, ABadStartIsOnlyTheFaultOfItsOwner) {
  const std::vector<std::int32_t> offs = {9, 0, 4};
  EXPECT_TRUE(expert_fault(CheckedSpan(offs), 0, 8));
  EXPECT_FALSE(expert_fault(CheckedSpan(offs), 1, 8)) << "begin 9 is expert 0's fault";
  EXPECT_FALSE(expert_fault(CheckedSpan(offs), 2, 8));
}

// Every offset list of length 3 over −2 … M + 2, against the words of the contract.
TEST(ExpertSegment, ExhaustiveSmallLists) {
  constexpr std::int32_t kM = 4;
  for (std::int32_t a = -2; a <= kM + 2; ++a) {
    for (std::int32_t b = -2; b <= kM + 2; ++b) {
      for (std::int32_t c = -2; c <= kM + 2; ++c) {
        const std::vector<std::int32_t> offs = {a, b, c};
        std::int64_t begin = 0;
        bool fault_seen = false;
        for (std::int32_t e = 0; e < 3; ++e) {
          const std::int64_t end = offs[e];
          const bool begin_good = begin >= 0 && begin <= kM;
          const bool end_good = end >= 0 && end <= kM;
          const RowRange range = expert_rows(CheckedSpan(offs), e, kM);
          const bool valid = begin_good && end_good && begin <= end;
          ASSERT_EQ(range, (valid ? RowRange{begin, end} : RowRange{0, 0}));
          const Fault fault = expert_fault(CheckedSpan(offs), e, kM);
          ASSERT_EQ(fault.kind == FaultKind::offs_out_of_range, !end_good);
          ASSERT_EQ(fault.kind == FaultKind::offs_not_monotonic,
                    end_good && begin_good && end < begin);
          ASSERT_TRUE(!fault || (fault.expert == e && fault.value == end));
          // A segment that is invalid for any reason has a recorded cause at or before it.
          fault_seen = fault_seen || fault;
          ASSERT_TRUE(valid || fault_seen);
          begin = end;
        }
        ASSERT_EQ(scan_faults(CheckedSpan(offs), 3, kM) != 0, fault_seen);
      }
    }
  }
}

}  // namespace
}  // namespace moesaic::math
