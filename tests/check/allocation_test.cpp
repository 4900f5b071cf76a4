// SPDX-License-Identifier: Apache-2.0
// Whichever allocation of a check fails, on whichever thread: the caller gets the exception.
#include <gtest/gtest.h>

#include "moesaic/check.hpp"
#include "support/failing_new.hpp"
#include "support/implementations.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr CheckOptions kAll{-1, -1, 1};

TEST(CheckWithoutMemory, OfAProductThrows) {
  for (const Pass pass : {Pass::forward, Pass::wgrad}) {
    GroupedRun run(make_problem(pass, WeightStorage::enk, kBf16, 3, 20, 16, 24), {5, 5, 18});
    fill_operands(run, 1, 0.5, 1);
    execute(run, {"cpu/reference/grouped", Strategy::grouped});
    const GroupedGemmArgs args = run.args();
    const std::int64_t failed = count_failing_allocations([&] {
      const CheckResult result = check_grouped_gemm(run.problem, args, kAll);
      EXPECT_EQ(result.mismatches, 0);
    });
    EXPECT_GT(failed, 4) << name(pass);  // one of them at least inside the loop over experts
  }
}

TEST(CheckWithoutMemory, OfTheExpertMlpThrows) {
  MlpRun run(make_mlp(UpGateOrder::gate_up, Format::bf16, 3, 20, 16, 24), {5, 5, 18});
  run.fill(1);
  const ExpertMlp mlp = run.plan({"cpu/reference/grouped", Strategy::grouped});
  const HostWorkspace workspace(mlp.backward_workspace_bytes());
  const ExpertMlpForwardArgs forward = run.forward_args();
  mlp.forward(forward, workspace.get(), Stream::cpu());
  const ExpertMlpBackwardArgs backward = run.backward_args();
  mlp.backward(backward, workspace.get(), Stream::cpu());
  EXPECT_GT(count_failing_allocations([&] {
              EXPECT_EQ(check_expert_mlp_forward(run.problem, forward, kAll).mismatches, 0);
            }),
            4);
  EXPECT_GT(count_failing_allocations([&] {
              EXPECT_EQ(check_expert_mlp_backward(run.problem, backward, kAll).mismatches, 0);
            }),
            4);
}

}  // namespace
}  // namespace moesaic::testing
