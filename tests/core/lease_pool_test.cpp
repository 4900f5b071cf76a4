// SPDX-License-Identifier: Apache-2.0
// Leases of symmetric buffers, on the pool itself and through a simulated group.
#include "core/lease_pool.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/expect_error.hpp"

namespace moesaic {
namespace {

using testing::expect_error;

TEST(LeasePool, TheLatestReleasedOfASizeComesFirst) {
  const auto group = ExpertParallelGroup::simulated(2);
  const SymmetricBuffer a = group.lease(1000), b = group.lease(1000), c = group.lease(2000);
  EXPECT_EQ((std::set<std::int64_t>{a.id, b.id, c.id}), (std::set<std::int64_t>{0, 1, 2}));
  group.release(a);
  group.release(c);
  group.release(b);
  EXPECT_EQ(group.lease(1000).id, b.id);
  EXPECT_EQ(group.lease(1000).id, a.id);
  EXPECT_EQ(group.lease(1000).id, 3);
  EXPECT_EQ(group.lease(2000).id, c.id);
}

TEST(LeasePool, EveryRankHasMemoryOfItsOwn) {
  const auto group = ExpertParallelGroup::simulated(3);
  std::set<void*> seen;
  for (int i = 0; i < 4; ++i) {
    const SymmetricBuffer buffer = group.lease(64);
    ASSERT_EQ(buffer.data.size(), 3U);
    for (void* data : buffer.data) {
      EXPECT_TRUE(seen.insert(data).second);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0U);
      static_cast<char*>(data)[63] = 1;
    }
  }
}

TEST(LeasePool, ReleasingTwiceIsAnError) {
  const auto group = ExpertParallelGroup::simulated(1);
  const SymmetricBuffer buffer = group.lease(256);
  group.release(buffer);
  expect_error(ErrorCode::invalid_argument, {"buffer", "leased", "buffer 0", "released before"},
               [&] { group.release(buffer); });
  const SymmetricBuffer again = group.lease(256);
  EXPECT_EQ(again.id, buffer.id);
  group.release(again);
}

TEST(LeasePool, ForeignBuffersAreRefused) {
  const auto group = ExpertParallelGroup::simulated(2), other = ExpertParallelGroup::simulated(2);
  const SymmetricBuffer own = group.lease(256), foreign = other.lease(256);
  ASSERT_EQ(own.id, foreign.id);
  for (const SymmetricBuffer& buffer : {foreign, SymmetricBuffer{}, SymmetricBuffer{7, 256, {}}}) {
    expect_error(ErrorCode::invalid_argument, {"buffer", "this group"},
                 [&] { group.release(buffer); });
  }
  EXPECT_EQ(group.pool_usage().leases, 1);
}

TEST(LeasePool, ReportsTheHighWaterMark) {
  const auto group = ExpertParallelGroup::simulated(1);
  const SymmetricBuffer a = group.lease(100), b = group.lease(50);
  group.release(a);
  const SymmetricBuffer c = group.lease(10);
  PoolUsage usage = group.pool_usage();
  EXPECT_EQ(usage.leases, 2);
  EXPECT_EQ(usage.leased_bytes, 60U);
  EXPECT_EQ(usage.high_water_bytes, 150U);
  EXPECT_EQ(usage.pooled_bytes, 160U);
  group.release(b);
  group.release(c);
  usage = group.pool_usage();
  EXPECT_EQ(usage.leases, 0);
  EXPECT_EQ(usage.leased_bytes, 0U);
  EXPECT_EQ(usage.high_water_bytes, 150U);
}

TEST(LeasePool, FindsLeasedMemoryAlone) {
  core::LeasePool pool;
  std::vector<std::byte> memory(300);
  const SymmetricBuffer buffer =
      pool.lease(300, [&](std::int64_t, std::size_t) { return std::vector<void*>{memory.data()}; });
  const auto place = pool.find(memory.data() + 299, 0);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->id, buffer.id);
  EXPECT_EQ(place->offset_bytes, 299U);
  EXPECT_EQ(place->room_bytes, 1U);
  EXPECT_FALSE(pool.find(memory.data() + 300, 0));
  pool.release(buffer);
  EXPECT_FALSE(pool.find(memory.data(), 0));
}

TEST(LeasePool, WhatCannotBeMadeIsNotLeased) {
  core::LeasePool pool;
  const auto fails = [](std::int64_t, std::size_t) -> std::vector<void*> {
    throw Error(ErrorCode::device_failure, "full");
  };
  expect_error(ErrorCode::device_failure, {"full"},
               [&] { static_cast<void>(pool.lease(8, fails)); });
  expect_error(ErrorCode::invalid_argument, {"size_bytes"},
               [&] { static_cast<void>(pool.lease(0, fails)); });
  EXPECT_EQ(pool.usage().leases, 0);
  EXPECT_EQ(pool.usage().pooled_bytes, 0U);
}

}  // namespace
}  // namespace moesaic
