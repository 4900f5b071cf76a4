// SPDX-License-Identifier: Apache-2.0
#include "math/fault_word.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace moesaic::math {
namespace {

constexpr std::int32_t kIntMin = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();

static_assert(encode_fault({}) == 0);
static_assert(!decode_fault(0) && decode_fault(0).expert == -1);
// Worked by hand: expert 3, decreasing, value −2.
static_assert(encode_fault({FaultKind::offs_not_monotonic, 3, -2}) ==
              ((std::uint64_t{0x3FFFFFFC} << 34) | (std::uint64_t{1} << 32) | 0xFFFFFFFEu));
static_assert(encode_fault({FaultKind::offs_out_of_range, 0, 7}) == 0xFFFFFFFE'00000007u);
static_assert(encode_fault({FaultKind::offs_not_monotonic, kMaxFaultExpert, 0}) != 0,
              "the highest expert with value 0 is still a fault");

TEST(FaultWord, RoundTrip) {
  for (const auto kind : {FaultKind::offs_not_monotonic, FaultKind::offs_out_of_range}) {
    for (const std::int32_t expert :
         {0, 1, 31, 4095, 65536, kMaxFaultExpert - 1, kMaxFaultExpert}) {
      for (const std::int32_t value : {kIntMin, -1, 0, 1, 123456, kIntMax}) {
        const Fault fault{kind, expert, value};
        ASSERT_EQ(decode_fault(encode_fault(fault)), fault);
      }
    }
  }
}

TEST(FaultWord, LowerExpertWinsWhateverKindAndValue) {
  for (const std::int32_t expert : {0, 1, 62, 4094, kMaxFaultExpert - 1}) {
    // The weakest word of this expert against the strongest of the next.
    const std::uint64_t low = encode_fault({FaultKind::offs_not_monotonic, expert, 0});
    const std::uint64_t high = encode_fault({FaultKind::offs_out_of_range, expert + 1, -1});
    ASSERT_GT(low, high) << expert;
    ASSERT_EQ(combine_faults(high, low), low);
    ASSERT_EQ(combine_faults(low, 0), low);
  }
}

TEST(FaultWord, CombiningInAnyOrderKeepsTheLowestExpert) {
  std::mt19937 rng(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Fault> faults;
    for (std::int32_t expert = static_cast<std::int32_t>(rng() % 50); faults.size() < 8;
         expert += 1 + static_cast<std::int32_t>(rng() % 900)) {
      const auto kind =
          rng() % 2 == 0 ? FaultKind::offs_not_monotonic : FaultKind::offs_out_of_range;
      faults.push_back({kind, expert, static_cast<std::int32_t>(rng())});
    }
    const Fault lowest = faults.front();
    std::shuffle(faults.begin(), faults.end(), rng);
    std::uint64_t word = 0;
    for (const Fault& fault : faults) word = combine_faults(word, encode_fault(fault));
    ASSERT_EQ(decode_fault(word), lowest);
  }
}

}  // namespace
}  // namespace moesaic::math
