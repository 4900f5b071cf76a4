// SPDX-License-Identifier: Apache-2.0
// Every index once, a state per thread, and the first exception out of the loop.
#include "core/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace moesaic::core {
namespace {

TEST(ParallelFor, RunsEveryIndexOnce) {
  for (const std::int64_t count : {0, 1, 2, 1000}) {
    for (const int threads : {0, 1, 2, 5}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      parallel_for(count, threads,
                   [&](std::int64_t index) { ++runs[static_cast<std::size_t>(index)]; });
      for (const std::atomic<int>& times : runs) {
        EXPECT_EQ(times, 1) << count << " on " << threads;
      }
    }
  }
}

TEST(ParallelFor, GivesEachThreadAStateOfItsOwn) {
  struct State {
    std::int64_t inside = 0;
  };
  std::atomic<std::int64_t> shared = 0;
  parallel_for_with<State>(500, 4, [&](State& state, std::int64_t /*index*/) {
    shared += ++state.inside != 1 ? 1 : 0;
    --state.inside;
  });
  EXPECT_EQ(shared, 0);
}

TEST(ParallelFor, RethrowsAndBeginsNoFurtherIndex) {
  for (const int threads : {1, 2, 5}) {
    std::atomic<std::int64_t> begun = 0;
    const auto run = [&] {
      parallel_for(100'000, threads, [&](std::int64_t index) {
        ++begun;
        if (index >= 10) {
          throw std::runtime_error("index 10 or later");
        }
      });
    };
    EXPECT_THROW(run(), std::runtime_error);
    EXPECT_GE(begun, 1);
    EXPECT_LT(begun, 100'000) << threads;
    EXPECT_NO_THROW(parallel_for(3, threads, [](std::int64_t /*index*/) {}));
  }
}

}  // namespace
}  // namespace moesaic::core
