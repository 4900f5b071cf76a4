// SPDX-License-Identifier: Apache-2.0
// One plan, many host threads: each with its own workspace, some of them fresh.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

class Threads : public ::testing::TestWithParam<Implementation> {};

TEST_P(Threads, TwoThreadsExecuteOnePlan) {
  for (const Pass pass : kAllPasses) {
    const GroupedGemm gemm =
        plan(make_problem(pass, WeightStorage::enk, kBf16, 6, 200, 40, 24), GetParam());
    std::atomic<int> wrong = 0;
    const auto work = [&](std::uint64_t seed) {
      const HostWorkspace workspace(gemm.workspace_bytes());
      for (std::int32_t round = 0; round < 12; ++round) {
        // Row counts that no call has seen: products are compiled while others run.
        const std::int32_t first = static_cast<std::int32_t>(seed) * 29 + round;
        GroupedRun run(gemm.problem(), {first, first, first + 40, 120, 120, 199});
        fill_operands(run, 1, 0.5, seed + 1);
        gemm.execute(run.args(), workspace.get(), Stream::cpu());
        wrong += integer_mismatch(run).empty() ? 0 : 1;
        wrong += read_fault(workspace.get(), Stream::cpu()) ? 1 : 0;
      }
    };
    std::thread one(work, 0);
    std::thread two(work, 1);
    one.join();
    two.join();
    EXPECT_EQ(wrong, 0) << name(pass);
  }
}

TEST_P(Threads, AFreshThreadPlansExecutesAndLeaves) {
  GroupedRun run(make_problem(Pass::forward, WeightStorage::ekn, kBf16, 2, 60, 40, 24), {20, 60});
  fill_operands(run, 1, 0.5, 3);
  std::thread([&] { execute(run, GetParam()); }).join();
  EXPECT_EQ(integer_mismatch(run), "");
}

/// The plan may go before its copy, and the thread that made it before both.
TEST_P(Threads, ACopyOutlivesThePlanAndItsThread) {
  GroupedRun run(make_problem(Pass::wgrad, WeightStorage::enk, kBf16, 2, 60, 40, 24), {20, 60});
  fill_operands(run, 1, 0.5, 4);
  std::unique_ptr<GroupedGemm> copy;
  std::thread([&] {
    const GroupedGemm gemm = plan(run.problem, GetParam());
    copy = std::make_unique<GroupedGemm>(gemm);
  }).join();
  const HostWorkspace workspace(copy->workspace_bytes());
  std::thread([&] { copy->execute(run.args(), workspace.get(), Stream::cpu()); }).join();
  EXPECT_EQ(integer_mismatch(run), "");
}

/// Whatever the limit, the result is right; without one it is also the same bits.
TEST_P(Threads, AnyThreadLimit) {
  for (const Pass pass : kAllPasses) {
    for (const int limit : {1, 2, 3, 64}) {
      GroupedRun run(make_problem(pass, WeightStorage::enk, kBf16, 3, 150, 136, 72), {70, 70, 150});
      fill_operands(run, 1, 0.5, 5);
      PlanOptions options;
      options.num_sms = limit;
      execute(run, GetParam(), options);
      EXPECT_EQ(integer_mismatch(run), "") << name(pass) << ", " << limit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Threads, ::testing::ValuesIn(runnable()),
                         [](const auto& instance) { return test_name(instance.param.name); });

}  // namespace
}  // namespace moesaic::testing
