// SPDX-License-Identifier: Apache-2.0
#include "core/recent_values.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace moesaic::core {
namespace {

using Values = RecentValues<3, std::uint64_t, 16>;

std::uint64_t value_of(const Values::Key& key) { return key[0] * 3 + key[1] * 5 + key[2] * 7; }

TEST(RecentValues, AreThoseOfTheirKeysAndNoOthers) {
  Values values;
  std::mt19937 random(1);
  int made = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Addresses of 512 bytes each, as those of tensors are, and two sizes.
    const Values::Key key{random() % 8 * 512, random() % 2, random() % 4};
    ASSERT_EQ(values.of(key, [&] { return ++made, value_of(key); }), value_of(key)) << i;
  }
  EXPECT_GT(made, 64) << "64 keys do not fit 16 places";
  EXPECT_LT(made, 19'000) << "and some stay";
}

TEST(RecentValues, OneThatIsAskedForAgainIsMadeOnce) {
  Values values;
  int made = 0;
  for (int i = 0; i < 5; ++i) values.of({1, 2, 3}, [&] { return ++made; });
  EXPECT_EQ(made, 1);
}

TEST(RecentValues, WhatCouldNotBeMadeIsNotThere) {
  Values values;
  EXPECT_EQ(values.of({1, 2, 3}, [] { return 9; }), 9U);
  const auto refuse = []() -> std::uint64_t { throw std::runtime_error("no"); };
  // A key of zeros is no key that is there from the beginning.
  EXPECT_THROW(values.of({0, 0, 0}, refuse), std::runtime_error);
  EXPECT_THROW(values.of({0, 0, 0}, refuse), std::runtime_error);
  EXPECT_EQ(values.of({0, 0, 0}, [] { return 4; }), 4U);
}

// Six maps a product: those of a layer that is called over and over are to stay.
TEST(RecentValues, FewKeysSeldomShareAPlace) {
  int again = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    RecentValues<3, std::uint64_t, 64> values;
    std::mt19937_64 random(seed);
    std::array<Values::Key, 6> keys;
    for (auto& key : keys) key = {0x7F00'0000'0000U + random() % 4096 * 512, random() % 8 * 64, 2};
    for (int round = 0; round < 2; ++round) {
      for (const auto& key : keys) values.of(key, [&] { return again += round, value_of(key); });
    }
  }
  EXPECT_LT(again, 200 * 6 / 4);
}

}  // namespace
}  // namespace moesaic::core
