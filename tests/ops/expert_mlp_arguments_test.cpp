// SPDX-License-Identifier: Apache-2.0
// What the expert MLP refuses: each with the argument's name of its own struct, and before anything
// is written. Packed weights, where they fit.
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/check.hpp"
#include "support/expect_error.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

ExpertMlpProblem small() { return make_mlp(UpGateOrder::gate_up, Format::bf16, 3, 20, 16, 24); }

TEST(MlpPlan, RefusalsNameTheField) {
  const auto refuse = [](std::initializer_list<std::string_view> parts,
                         const std::function<void(ExpertMlpProblem&)>& spoil,
                         ErrorCode code = ErrorCode::invalid_argument) {
    ExpertMlpProblem problem = small();
    spoil(problem);
    expect_error(code, parts, [&] { ExpertMlp::plan(problem, cpu()); });
  };
  refuse({"num_experts", "0"}, [](auto& p) { p.num_experts = 0; });
  refuse({"max_rows", "-1"}, [](auto& p) { p.max_rows = -1; });
  refuse({"d", "12"}, [](auto& p) { p.d = 12; });
  refuse({"h", "4"}, [](auto& p) { p.h = 4; });
  refuse({"d", "0"}, [](auto& p) { p.d = 0; });
  refuse({"h", "-8"}, [](auto& p) { p.h = -8; });
  refuse({"order", "77"}, [](auto& p) { p.order = static_cast<UpGateOrder>(77); });
  refuse({"wgrad_dtype"}, [](auto& p) { p.wgrad_dtype = DType::i32; });
  refuse({"wgrad_dtype", "f32"}, [](auto& p) { p.format = Format::f32; });
  refuse(
      {"format", "mxfp8"}, [](auto& p) { p.format = Format::mxfp8; }, ErrorCode::unsupported);
  refuse({"capacity"}, [](auto& p) { p.capacity.factor_millionths = -1; });
  refuse({"h", "2^29"}, [](auto& p) { p.h = std::int64_t{1} << 30; });  // its products have n = 2h
  refuse({"max_rows", "2^62 bytes"}, [](auto& p) {
    p.max_rows = (std::int64_t{1} << 31) - 1;
    p.h = std::int64_t{1} << 29;
    p.format = Format::f32;
    p.wgrad_dtype = DType::f32;
  });
  PlanOptions options;
  options.implementation = "cpu/nothing";
  expect_error(ErrorCode::invalid_argument, {"implementation", "cpu/nothing"},
               [&] { ExpertMlp::plan(small(), cpu(), options); });
}

TEST(MlpPlan, SaysWhatItUsesAndNeeds) {
  PlanOptions options;
  options.implementation = "cpu/reference/grouped";
  ExpertMlpProblem problem = small();
  const ExpertMlp save = ExpertMlp::plan(problem, cpu(), options);
  EXPECT_EQ(save.implementation(), "cpu/reference/grouped");
  EXPECT_EQ(save.problem().h, 24);
  problem.activations = Activations::recompute;
  const ExpertMlp again = ExpertMlp::plan(problem, cpu(), options);
  EXPECT_GT(again.forward_workspace_bytes(), save.forward_workspace_bytes());
  EXPECT_GT(again.backward_workspace_bytes(), save.backward_workspace_bytes());
}

class MlpArguments : public ::testing::TestWithParam<Implementation> {
 protected:
  static void refuse_forward(std::initializer_list<std::string_view> parts,
                             const std::function<void(ExpertMlpForwardArgs&)>& spoil,
                             Activations activations = Activations::save, bool weighted = false) {
    MlpRun run = make(activations, weighted);
    const std::vector<std::byte> y = run.y.snapshot();
    const std::vector<std::byte> u = run.u.snapshot();
    const ExpertMlp mlp = run.plan(GetParam());
    const HostWorkspace workspace(mlp.forward_workspace_bytes());
    ExpertMlpForwardArgs args = run.forward_args();
    spoil(args);
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { mlp.forward(args, workspace.get(), Stream::cpu()); });
    EXPECT_TRUE(y == run.y.snapshot() && u == run.u.snapshot()) << "something was written";
  }
  static void refuse_backward(std::initializer_list<std::string_view> parts,
                              const std::function<void(ExpertMlpBackwardArgs&)>& spoil,
                              Activations activations = Activations::save, bool weighted = false) {
    MlpRun run = make(activations, weighted);
    const std::vector<std::byte> dx = run.dx.snapshot();
    const std::vector<std::byte> up = run.dw_up_gate.snapshot();
    const std::vector<std::byte> down = run.dw_down.snapshot();
    const ExpertMlp mlp = run.plan(GetParam());
    const HostWorkspace workspace(mlp.backward_workspace_bytes());
    ExpertMlpBackwardArgs args = run.backward_args();
    spoil(args);
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { mlp.backward(args, workspace.get(), Stream::cpu()); });
    EXPECT_TRUE(dx == run.dx.snapshot() && up == run.dw_up_gate.snapshot() &&
                down == run.dw_down.snapshot())
        << "something was written";
  }
  static MlpRun make(Activations activations, bool weighted = false) {
    ExpertMlpProblem problem = small();
    problem.activations = activations;
    problem.row_weights = weighted;
    MlpRun run(problem, {5, 5, 18});
    run.fill(1);
    return run;
  }
};

TEST_P(MlpArguments, OfForward) {
  refuse_forward({"x", "[20, 16]"}, [](auto& args) { args.x.shape[1] = 24; });
  refuse_forward({"x", "cuda:1"}, [](auto& args) { args.x.device = {DeviceKind::cuda, 1}; });
  refuse_forward({"w_up_gate", "[3, 48, 16]"}, [](auto& args) { args.w_up_gate.shape[1] = 24; });
  refuse_forward({"w_up_gate"}, [](auto& args) { args.w_up_gate = {}; });
  refuse_forward({"w_down", "[3, 16, 24]"}, [](auto& args) { args.w_down.shape[2] = 16; });
  refuse_forward({"offs"}, [](auto& args) { args.offs.shape[0] = 2; });
  refuse_forward({"y", "f32"}, [](auto& args) { args.y.dtype = DType::f32; });
  refuse_forward({"y"}, [](auto& args) { args.y = {}; });
  refuse_forward({"u"}, [](auto& args) { args.u = {}; });
  refuse_forward({"u", "[20, 48]"}, [](auto& args) { args.u.shape[1] = 24; });
  refuse_forward({"y", "apart from x"}, [](auto& args) { args.x.data = args.y.data; });
  refuse_forward({"u", "apart from"},
                 [](auto& args) { args.u.data = const_cast<void*>(args.w_up_gate.data); });
  refuse_forward({"y", "apart from"}, [](auto& args) { args.offs.data = args.y.data; });
  refuse_forward({"y", "apart from u"}, [](auto& args) { args.y.data = args.u.data; });
  MlpRun other = make(Activations::save);
  refuse_forward(
      {"u", "recompute"}, [&](auto& args) { args.u = other.u.view(); }, Activations::recompute);
}

TEST_P(MlpArguments, OfBackward) {
  refuse_backward({"dy", "[20, 16]"}, [](auto& args) { args.dy.shape[1] = 24; });
  refuse_backward({"x"}, [](auto& args) { args.x = {}; });
  refuse_backward({"w_up_gate"}, [](auto& args) { args.w_up_gate.shape[0] = 4; });
  refuse_backward({"w_down"}, [](auto& args) { args.w_down.stride[1] = 20; });
  refuse_backward({"offs"}, [](auto& args) { args.offs.dtype = DType::bf16; });
  refuse_backward({"u"}, [](auto& args) { args.u = {}; });
  refuse_backward({"dx", "memory"}, [](auto& args) { args.dx.data = nullptr; });
  refuse_backward({"dx", "stride"}, [](auto& args) { args.dx.stride[0] = 8; });
  refuse_backward({"dw_up_gate"}, [](auto& args) { args.dw_up_gate.shape[1] = 24; });
  refuse_backward({"dw_up_gate", "f32"}, [](auto& args) { args.dw_up_gate.dtype = DType::f32; });
  refuse_backward({"dw_down", "memory"}, [](auto& args) { args.dw_down.data = nullptr; });
  refuse_backward({"dx", "apart from dy"}, [](auto& args) { args.dy.data = args.dx.data; });
  refuse_backward({"dx", "apart from u"},
                  [](auto& args) { args.dx.data = const_cast<void*>(args.u.data); });
  refuse_backward({"dw_down", "apart from"},
                  [](auto& args) { args.w_down.data = args.dw_down.data; });
  refuse_backward({"dw_up_gate", "apart from"},
                  [](auto& args) { args.dw_down.data = args.dw_up_gate.data; });
  // The memory of x, but not its very rows.
  refuse_backward({"dx", "apart from x"}, [](auto& args) {
    args.dx.data = static_cast<std::byte*>(const_cast<void*>(args.x.data)) + 32;
  });
  MlpRun other = make(Activations::save);
  refuse_backward(
      {"u", "recompute"}, [&](auto& args) { args.u = other.u.view(); }, Activations::recompute);
}

/// Weights of rows, in both directions: given to a problem without them, and not as they must be.
TEST_P(MlpArguments, RowWeights) {
  std::vector<float> weights(40, 1);
  const TensorView twenty = view(std::span(weights), {20});
  const auto forward = [](auto parts, const auto& spoil) {
    refuse_forward(parts, spoil, Activations::save, true);
  };
  const auto backward = [](auto parts, const auto& spoil) {
    refuse_backward(parts, spoil, Activations::save, true);
  };
  using Parts = std::initializer_list<std::string_view>;
  refuse_forward({"row_weights", "no row_weights", "f32 [20]"},
                 [&](auto& args) { args.row_weights = twenty; });
  refuse_backward({"row_weights", "no row_weights"},
                  [&](auto& args) { args.row_weights = twenty; });
  refuse_backward({"drow_weights", "no row_weights"},
                  [&](auto& args) { args.drow_weights = twenty; });
  forward(Parts{"row_weights", "f32 [20]"}, [](auto& args) { args.row_weights = {}; });
  forward(Parts{"row_weights", "bf16"}, [](auto& args) { args.row_weights.dtype = DType::bf16; });
  forward(Parts{"row_weights", "[21]"}, [](auto& args) { args.row_weights.shape[0] = 21; });
  forward(Parts{"row_weights", "stride [1]"}, [](auto& args) { args.row_weights.stride[0] = 2; });
  forward(Parts{"row_weights", "cuda:0"}, [](auto& args) {
    args.row_weights.device = {DeviceKind::cuda, 0};
  });
  forward(Parts{"row_weights", "null"}, [](auto& args) { args.row_weights.data = nullptr; });
  forward(Parts{"y", "apart from row_weights"},
          [](auto& args) { args.row_weights.data = args.y.data; });
  forward(Parts{"u", "apart from row_weights"},
          [](auto& args) { args.row_weights.data = args.u.data; });
  backward(Parts{"row_weights", "f32 [20]"}, [](auto& args) { args.row_weights = {}; });
  backward(Parts{"drow_weights", "bf16"},
           [](auto& args) { args.drow_weights.dtype = DType::bf16; });
  backward(Parts{"drow_weights", "[20, 16]"}, [](auto& args) { args.drow_weights = args.dx; });
  backward(Parts{"drow_weights", "null"}, [](auto& args) { args.drow_weights.data = nullptr; });
  backward(Parts{"drow_weights", "apart from row_weights"},
           [](auto& args) { args.drow_weights.data = const_cast<void*>(args.row_weights.data); });
  backward(Parts{"drow_weights", "apart from dy"},
           [](auto& args) { args.drow_weights.data = const_cast<void*>(args.dy.data); });
  backward(Parts{"drow_weights", "apart from dw_down"},
           [](auto& args) { args.drow_weights.data = args.dw_down.data; });
  backward(Parts{"dx", "apart from row_weights"},
           [](auto& args) { args.row_weights.data = args.dx.data; });
  backward(Parts{"dx", "one of", "drow_weights"},
           [](auto& args) { args.dx = args.dw_up_gate = args.dw_down = args.drow_weights = {}; });
}

TEST_P(MlpArguments, WorkspacesAndStreams) {
  MlpRun run = make(Activations::recompute);
  const ExpertMlp mlp = run.plan(GetParam());
  const std::size_t needed = mlp.forward_workspace_bytes();
  const HostWorkspace workspace(mlp.backward_workspace_bytes());
  const Workspace small_one{workspace.get().bytes.subspan(0, needed - 1), Device{}};
  expect_error(ErrorCode::workspace_too_small, {"workspace", std::to_string(needed)},
               [&] { mlp.forward(run.forward_args(), small_one, Stream::cpu()); });
  expect_error(ErrorCode::workspace_too_small, {"workspace"},
               [&] { mlp.backward(run.backward_args(), small_one, Stream::cpu()); });
  const Stream foreign = Stream::from_native(Device{DeviceKind::cuda, 0}, nullptr);
  expect_error(ErrorCode::invalid_argument, {"stream"},
               [&] { mlp.forward(run.forward_args(), workspace.get(), foreign); });
  expect_error(ErrorCode::invalid_argument, {"stream"},
               [&] { mlp.backward(run.backward_args(), workspace.get(), foreign); });
}

/// Weights packed for the one product are refused by the other, by the name of this struct, before
/// the first product has written U.
TEST_P(MlpArguments, PackedWeights) {
  MlpRun run = make(Activations::save);
  const ExpertMlp mlp = run.plan(GetParam());
  moesaic::PackedWeights up, down;
  try {
    up = mlp.pack_up_gate({run.w_up_gate.view(), {}}, Stream::cpu());
    down = mlp.pack_down({run.w_down.view(), {}}, Stream::cpu());
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::unsupported));
    refuse_forward({"packed_down"}, [&](auto& args) { args.packed_down = &down; });
    return;
  }
  refuse_forward({"packed_up_gate", "n 48, k 16"},
                 [&](auto& args) { args.packed_up_gate = &down; });
  refuse_forward({"packed_down", "n 16, k 24"}, [&](auto& args) { args.packed_down = &up; });
  const moesaic::PackedWeights none;
  refuse_forward({"packed_down", "empty"}, [&](auto& args) { args.packed_down = &none; });

  ExpertMlpForwardArgs args = run.forward_args();
  args.w_up_gate = args.w_down = {};
  args.packed_up_gate = &up;
  args.packed_down = &down;
  const HostWorkspace workspace(mlp.forward_workspace_bytes());
  mlp.forward(args, workspace.get(), Stream::cpu());
  const CheckResult result = check_expert_mlp_forward(run.problem, run.forward_args(), {-1, -1, 1});
  EXPECT_GT(result.elements, 0);
  EXPECT_EQ(result.mismatches, 0);
}

INSTANTIATE_TEST_SUITE_P(All, MlpArguments, ::testing::ValuesIn(runnable()),
                         [](const auto& instance) { return test_name(instance.param.name); });

}  // namespace
}  // namespace moesaic::testing
