// SPDX-License-Identifier: Apache-2.0
// The expert MLP with some gradients only, and with its intermediates apart from the workspace.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "support/mlp_run.hpp"

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

/// Frozen weights, or an input that needs no gradient: the others get the same bits, and what is
/// not wanted is not written.
TEST_P(MlpParts, OnlyWantedGradientsAreWritten) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun all = make(activations);
    all.forward(GetParam());
    all.backward(GetParam());
    for (int wanted = 1; wanted < 7; ++wanted) {
      MlpRun run = make(activations);
      run.forward(GetParam());
      const ExpertMlp mlp = run.plan(GetParam());
      const HostWorkspace workspace(mlp.backward_workspace_bytes());
      ExpertMlpBackwardArgs args = run.backward_args();
      if ((wanted & 1) == 0) {
        args.dx = {};
      }
      if ((wanted & 2) == 0) {
        args.dw_up_gate = {};
      }
      if ((wanted & 4) == 0) {
        args.dw_down = {};
      }
      const std::vector<std::byte> dx = run.dx.snapshot();
      const std::vector<std::byte> dw_up_gate = run.dw_up_gate.snapshot();
      const std::vector<std::byte> dw_down = run.dw_down.snapshot();
      mlp.backward(args, workspace.get(), Stream::cpu());
      const auto judge = [](bool was_wanted, const HostTensor& got, const HostTensor& full,
                            const std::vector<std::byte>& before) {
        return was_wanted ? bit_difference(got, full)
                          : got.stray_change(before, [](auto, auto, auto) { return false; });
      };
      EXPECT_EQ(judge((wanted & 1) != 0, run.dx, all.dx, dx), "") << wanted;
      EXPECT_EQ(judge((wanted & 2) != 0, run.dw_up_gate, all.dw_up_gate, dw_up_gate), "") << wanted;
      EXPECT_EQ(judge((wanted & 4) != 0, run.dw_down, all.dw_down, dw_down), "") << wanted;
    }
  }
}

TEST_P(MlpParts, NoGradientAtAllIsRefused) {
  MlpRun run = make(Activations::save);
  const ExpertMlp mlp = run.plan(GetParam());
  const HostWorkspace workspace(mlp.backward_workspace_bytes());
  ExpertMlpBackwardArgs args = run.backward_args();
  args.dx = args.dw_up_gate = args.dw_down = {};
  expect_error(ErrorCode::invalid_argument, {"dx", "one of dx, dw_up_gate and dw_down"},
               [&] { mlp.backward(args, workspace.get(), Stream::cpu()); });
}

/// What is left in the workspace is small and keeps the fault; the scratch may hold anything.
TEST_P(MlpParts, ScratchMayLieApart) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun within = make(activations);
    within.forward(GetParam());
    within.backward(GetParam());
    MlpRun apart = make(activations);
    const ExpertMlp mlp = apart.plan(GetParam());
    const auto run = [&](std::size_t workspace_bytes, std::size_t scratch_bytes, const auto& call) {
      ASSERT_GT(scratch_bytes, std::size_t{4800});  // H alone
      const HostWorkspace workspace(workspace_bytes - scratch_bytes);
      const HostWorkspace scratch(scratch_bytes);
      std::memset(scratch.get().bytes.data(), 0xFF, scratch_bytes);  // NaN
      call(workspace.get(), scratch.get());
      EXPECT_FALSE(read_fault(workspace.get(), Stream::cpu()));
    };
    run(mlp.forward_workspace_bytes(), mlp.forward_scratch_bytes(),
        [&](Workspace workspace, Workspace scratch) {
          ExpertMlpForwardArgs args = apart.forward_args();
          args.scratch = scratch;
          mlp.forward(args, workspace, Stream::cpu());
        });
    run(mlp.backward_workspace_bytes(), mlp.backward_scratch_bytes(),
        [&](Workspace workspace, Workspace scratch) {
          ExpertMlpBackwardArgs args = apart.backward_args();
          args.scratch = scratch;
          mlp.backward(args, workspace, Stream::cpu());
        });
    EXPECT_EQ(bit_difference(apart.y, within.y), "");
    EXPECT_EQ(bit_difference(apart.dx, within.dx), "");
    EXPECT_EQ(bit_difference(apart.dw_up_gate, within.dw_up_gate), "");
    EXPECT_EQ(bit_difference(apart.dw_down, within.dw_down), "");
  }
}

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
