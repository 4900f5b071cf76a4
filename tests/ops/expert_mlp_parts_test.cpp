// SPDX-License-Identifier: Apache-2.0
// The expert MLP with some gradients only, and with its intermediates apart from the workspace.
#include <gtest/gtest.h>

#include <string>

#include "ops/expert_mlp_case.hpp"
#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

class MlpParts : public ::testing::TestWithParam<Implementation> {
 protected:
  static MlpRun make(Activations activations) {
    ExpertMlpProblem problem = make_mlp(UpGateOrder::gate_up, Format::bf16, 3, 60, 24, 40);
    problem.activations = activations;
    MlpRun run(problem, {20, 20, 51}, kScattered);
    run.fill(11);
    return run;
  }
};

TEST_P(MlpParts, OnlyWantedGradientsAreWritten) { expect_only_wanted_gradients(GetParam(), make); }

TEST_P(MlpParts, NoGradientAtAllIsRefused) {
  MlpRun run = make(Activations::save);
  const ExpertMlp mlp = run.plan(GetParam());
  const HostWorkspace workspace(mlp.backward_workspace_bytes());
  ExpertMlpBackwardArgs args = run.backward_args();
  args.dx = args.dw_up_gate = args.dw_down = {};
  expect_error(ErrorCode::invalid_argument, {"dx", "one of dx, dw_up_gate and dw_down"},
               [&] { mlp.backward(args, workspace.get(), Stream::cpu()); });
}

TEST_P(MlpParts, ScratchMayLieApart) { expect_scratch_may_lie_apart(GetParam(), make); }

TEST_P(MlpParts, ScratchThatDoesNotFitIsRefused) {
  MlpRun run = make(Activations::save);
  const ExpertMlp mlp = run.plan(GetParam());
  const HostWorkspace workspace(mlp.backward_workspace_bytes());
  const HostWorkspace scratch(mlp.backward_scratch_bytes());
  ExpertMlpForwardArgs forward = run.forward_args();
  forward.scratch = {scratch.get().bytes.first(mlp.forward_scratch_bytes() - 1), Device{}};
  expect_error(ErrorCode::workspace_too_small,
               {"scratch", std::to_string(mlp.forward_scratch_bytes())},
               [&] { mlp.forward(forward, workspace.get(), Stream::cpu()); });
  ExpertMlpBackwardArgs backward = run.backward_args();
  backward.scratch = {scratch.get().bytes, Device{DeviceKind::cuda, 0}};
  expect_error(ErrorCode::invalid_argument, {"scratch", "cuda:0"},
               [&] { mlp.backward(backward, workspace.get(), Stream::cpu()); });
}

INSTANTIATE_TEST_SUITE_P(All, MlpParts, ::testing::ValuesIn(runnable()),
                         [](const auto& instance) { return test_name(instance.param.name); });

}  // namespace
}  // namespace moesaic::testing
