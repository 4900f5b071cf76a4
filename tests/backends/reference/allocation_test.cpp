// SPDX-License-Identifier: Apache-2.0
// Whichever allocation of an execute fails, on whichever thread: the caller gets the exception.
#include <gtest/gtest.h>

#include "support/failing_new.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

TEST(ReferenceWithoutMemory, Throws) {
  for (const Pass pass : kAllPasses) {
    GroupedRun run(make_problem(pass, WeightStorage::enk, kBf16, 2, 20, 16, 24), {5, 18});
    fill_operands(run, 1, 0.5, 1);
    const GroupedGemm gemm = plan(run.problem, {"cpu/reference/grouped", Strategy::grouped});
    const HostWorkspace workspace(gemm.workspace_bytes());
    const GroupedGemmArgs args = run.args();
    const std::int64_t failed =
        count_failing_allocations([&] { gemm.execute(args, workspace.get(), Stream::cpu()); });
    EXPECT_GT(failed, 1) << name(pass);  // the segments, and each thread's scratch
    EXPECT_EQ(integer_mismatch(run), "") << name(pass);
  }
}

}  // namespace
}  // namespace moesaic::testing
