// SPDX-License-Identifier: Apache-2.0
// A rank that dies: the others end with an error that names it, within the time-out.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "ep/ep_run.hpp"
#include "support/expect_error.hpp"

namespace moesaic::ep_tests {
namespace {

constexpr double kTimeoutSeconds = 3;

class Death : public OnRanks {};

TEST_F(Death, OfARankThatDiesTheOthersTell) {
  const char* dying = std::getenv("MOESAIC_DYING_RANK");
  if (dying == nullptr) GTEST_SKIP() << "needs scripts/run_ranks.sh --one-dies";
  const int last = std::atoi(dying);
  const auto group = make_group(all_ranks(), kTimeoutSeconds);
  const int experts = 2 * ranks().count;
  const testing::RankIds ids(static_cast<std::size_t>(ranks().count),
                             std::vector<std::int32_t>(64, experts - 1));
  EpRun run(group, ranks().rank, testing::exchange_problem(experts, 2, 32, 256), ids, 1, stream());
  run.check_all();
  meet();
  if (ranks().rank == last) _exit(0);  // no destructors, no goodbye

  const auto begin = std::chrono::steady_clock::now();
  const std::string name = "rank " + std::to_string(last) + " did not reach barrier";
  testing::expect_error(ErrorCode::device_failure, {"group of", name, "3 s"}, [&] {
    // More than one operation waits behind the barrier that nobody passes.
    for (int i = 0; i < 5; ++i) {
      run.exchange.route_maps(std::vector{run.maps_args()}, stream());
      run.exchange.dispatch_put(std::vector{run.put_args(false)}, stream());
    }
    group.check(stream());
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(seconds, kTimeoutSeconds * 0.9);
  EXPECT_LT(seconds, kTimeoutSeconds + 10);
  testing::expect_error(ErrorCode::device_failure, {"group of", name},
                        [&] { group.barrier(stream()); });
  // The device is sound: work that needs no peer goes on.
  const OnDevice own(std::vector<float>{1, 2, 3}, stream());
  EXPECT_EQ(own.get<float>(stream()), (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace moesaic::ep_tests
