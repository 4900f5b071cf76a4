// SPDX-License-Identifier: Apache-2.0
// Everything that plan() and execute() refuse, on every implementation: the code, the argument's
// name, and not a byte written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

GroupedGemmProblem small(Pass pass = Pass::forward) {
  return make_problem(pass, WeightStorage::enk, kBf16, 3, 20, 16, 24);
}

TEST(PlanRefusals, NameTheField) {
  const auto refuse = [](std::initializer_list<std::string_view> parts,
                         const std::function<void(GroupedGemmProblem&)>& spoil,
                         ErrorCode code = ErrorCode::invalid_argument) {
    GroupedGemmProblem problem = small();
    spoil(problem);
    expect_error(code, parts, [&] { GroupedGemm::plan(problem, cpu()); });
  };
  refuse({"num_experts", "0"}, [](auto& p) { p.num_experts = 0; });
  refuse({"num_experts", "-3"}, [](auto& p) { p.num_experts = -3; });
  refuse({"num_experts", "65537"}, [](auto& p) { p.num_experts = 65'537; });
  refuse({"max_rows", "-1"}, [](auto& p) { p.max_rows = -1; });
  refuse({"max_rows", "2147483648"}, [](auto& p) { p.max_rows = std::int64_t{1} << 31; });
  for (const std::int64_t width : {0, -8, 1, 7, 9, 12, 63}) {
    refuse({"n", "multiple of 8", std::to_string(width)}, [&](auto& p) { p.n = width; });
    refuse({"k", "multiple of 8", std::to_string(width)}, [&](auto& p) { p.k = width; });
  }
  refuse({"accumulate", "wgrad", "forward"}, [](auto& p) { p.accumulate = true; });
  refuse({"d_dtype"}, [](auto& p) { p.d_dtype = DType::i32; });
  refuse({"d_dtype"}, [](auto& p) { p.d_dtype = DType::e8m0; });
  refuse({"d_dtype", "f32", "bf16"}, [](auto& p) { p.format = Format::f32; });
  refuse(
      {"format", "mxfp8"}, [](auto& p) { p.format = Format::mxfp8; }, ErrorCode::unsupported);
  refuse({"capacity"}, [](auto& p) {
    p.strategy = Strategy::padded_bmm;
    p.capacity.factor_millionths = 0;
  });
}

TEST(PlanRefusals, ExtremesThatAreLegal) {
  for (const int experts : {1, 4096, 65'536}) {
    GroupedGemmProblem problem = small();
    problem.num_experts = experts;
    EXPECT_NO_THROW(GroupedGemm::plan(problem, cpu()));
  }
  GroupedGemmProblem problem = small();
  problem.max_rows = (std::int64_t{1} << 31) - 1;
  EXPECT_NO_THROW(GroupedGemm::plan(problem, cpu()));
  problem.max_rows = 0;
  EXPECT_NO_THROW(GroupedGemm::plan(problem, cpu()));
}

class Arguments : public ::testing::TestWithParam<Implementation> {
 protected:
  /// Executes with spoiled arguments; d must keep every byte.
  void refuse(Pass pass, std::initializer_list<std::string_view> parts,
              const std::function<void(GroupedGemmArgs&)>& spoil) {
    GroupedRun run(small(pass), {5, 5, 18});
    fill_operands(run, 1, 0.5, 1);
    const std::vector<std::byte> before = run.d.snapshot();
    const GroupedGemm gemm = plan(run.problem, GetParam());
    const HostWorkspace workspace(gemm.workspace_bytes());
    GroupedGemmArgs args = run.args();
    spoil(args);
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { gemm.execute(args, workspace.get(), Stream::cpu()); });
    EXPECT_EQ(run.d.stray_change(before, [](auto, auto, auto) { return false; }), "");
  }
};

TEST_P(Arguments, ShapesTypesAndRanks) {
  for (const Pass pass : kAllPasses) {
    refuse(pass, {"a", "[19, "}, [](auto& args) { args.a.qdata.shape[0] = 19; });
    refuse(pass, {"a", "[20, 8]"}, [](auto& args) { args.a.qdata.shape[1] = 8; });
    refuse(pass, {"a", "f32"}, [](auto& args) { args.a.qdata.dtype = DType::f32; });
    refuse(pass, {"a"}, [](auto& args) { args.a.qdata.rank = 3; });
    refuse(pass, {"a"}, [](auto& args) { args.a.qdata = {}; });
    refuse(pass, {"a", "null"}, [](auto& args) { args.a.qdata.data = nullptr; });
    refuse(pass, {"b"}, [](auto& args) { args.b.qdata = {}; });
    refuse(pass, {"b"}, [](auto& args) { args.b.qdata.shape[0] += 1; });
    refuse(pass, {"b"}, [](auto& args) {
      std::swap(args.b.qdata.rank, args.a.qdata.rank);
      args.a.qdata.rank = 2;
      args.b.qdata.rank = 1;
    });
    refuse(pass, {"d", "f32"}, [](auto& args) { args.d.dtype = DType::f32; });
    refuse(pass, {"d"}, [](auto& args) { args.d.shape[1] += 8; });
    refuse(pass, {"d", "null"}, [](auto& args) { args.d.data = nullptr; });
    refuse(pass, {"offs", "[3]"}, [](auto& args) { args.offs.shape[0] = 4; });
    refuse(pass, {"offs"}, [](auto& args) { args.offs.dtype = DType::f32; });
    refuse(pass, {"offs"}, [](auto& args) { args.offs.stride[0] = 2; });
    refuse(pass, {"offs", "null"}, [](auto& args) { args.offs.data = nullptr; });
    refuse(pass, {"offs", "aligned"},
           [](auto& args) { args.offs.data = static_cast<const std::byte*>(args.offs.data) + 2; });
  }
}

TEST_P(Arguments, AlignmentAndStrides) {
  const auto shift = [](auto& view, std::int64_t bytes) {
    using Pointer = decltype(view.data);
    if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>) {
      view.data = static_cast<const std::byte*>(view.data) + bytes;
    } else {
      view.data = static_cast<std::byte*>(view.data) + bytes;
    }
  };
  for (const std::int64_t bytes : {2, 4, 8, 14}) {
    refuse(Pass::forward, {"a", "16-byte", std::to_string(bytes)},
           [&](auto& args) { shift(args.a.qdata, bytes); });
    refuse(Pass::dgrad, {"b", "16-byte", std::to_string(bytes)},
           [&](auto& args) { shift(args.b.qdata, bytes); });
    refuse(Pass::wgrad, {"d", "16-byte", std::to_string(bytes)},
           [&](auto& args) { shift(args.d, bytes); });
  }
  refuse(Pass::forward, {"a", "stride", "28"}, [](auto& args) { args.a.qdata.stride[0] = 28; });
  refuse(Pass::forward, {"a", "stride", "16"}, [](auto& args) { args.a.qdata.stride[0] = 16; });
  refuse(Pass::forward, {"a", "stride", "-24"}, [](auto& args) { args.a.qdata.stride[0] = -24; });
  refuse(Pass::forward, {"a", "stride", "2"}, [](auto& args) { args.a.qdata.stride[1] = 2; });
  refuse(Pass::forward, {"a", "stride"}, [](auto& args) { args.a.qdata.stride[0] = 0; });
  refuse(Pass::forward, {"d", "stride", "8"}, [](auto& args) { args.d.stride[0] = 8; });
  refuse(Pass::forward, {"b", "stride"}, [](auto& args) { args.b.qdata.stride[1] = 25; });
  refuse(Pass::forward, {"b", "stride"}, [](auto& args) { args.b.qdata.stride[0] = 387; });
  refuse(Pass::wgrad, {"d", "stride"}, [](auto& args) { args.d.stride[0] = 16; });
  refuse(Pass::wgrad, {"d", "stride"}, [](auto& args) { args.d.stride[0] = 0; });
}

TEST_P(Arguments, DevicesAndStreams) {
  const Device gpu{DeviceKind::cuda, 0};
  refuse(Pass::forward, {"a", "cuda:0"}, [&](auto& args) { args.a.qdata.device = gpu; });
  refuse(Pass::forward, {"b", "cuda:0"}, [&](auto& args) { args.b.qdata.device = gpu; });
  refuse(Pass::forward, {"offs", "cuda:0"}, [&](auto& args) { args.offs.device = gpu; });
  refuse(Pass::forward, {"d", "cuda:0"}, [&](auto& args) { args.d.device = gpu; });
  GroupedRun run(small(), {5, 5, 18});
  const GroupedGemm gemm = plan(run.problem, GetParam());
  const HostWorkspace workspace(gemm.workspace_bytes());
  expect_error(ErrorCode::invalid_argument, {"stream", "cpu", "cuda:0"}, [&] {
    gemm.execute(run.args(), workspace.get(), Stream::from_native(gpu, nullptr));
  });
  Workspace foreign = workspace.get();
  foreign.device = gpu;
  expect_error(ErrorCode::invalid_argument, {"workspace", "cuda:0"},
               [&] { gemm.execute(run.args(), foreign, Stream::cpu()); });
}

TEST_P(Arguments, OverlapsAndScales) {
  for (const Pass pass : kAllPasses) {
    refuse(pass, {"d", "apart from a"}, [](auto& args) { args.a.qdata.data = args.d.data; });
    refuse(pass, {"d", "apart from b"},
           [](auto& args) { args.b.qdata.data = static_cast<const std::byte*>(args.d.data) + 64; });
    refuse(pass, {"d", "apart from offs"}, [](auto& args) { args.offs.data = args.d.data; });
  }
  refuse(Pass::forward, {"a.scales"}, [](auto& args) { args.a.scales = args.a.qdata; });
  refuse(Pass::forward, {"b.scales"}, [](auto& args) { args.b.scales = args.b.qdata; });
}

TEST_P(Arguments, Workspaces) {
  GroupedRun run(small(), {5, 5, 18});
  const GroupedGemm gemm = plan(run.problem, GetParam());
  ASSERT_GT(gemm.workspace_bytes(), 0u);
  const HostWorkspace workspace(gemm.workspace_bytes() + 256);
  const std::span<std::byte> all = workspace.get().bytes;
  const auto execute_in = [&](std::span<std::byte> bytes) {
    gemm.execute(run.args(), {bytes, Device{}}, Stream::cpu());
  };
  expect_error(ErrorCode::workspace_too_small, {"workspace"}, [&] { execute_in({}); });
  expect_error(ErrorCode::workspace_too_small,
               {"workspace", std::to_string(gemm.workspace_bytes())},
               [&] { execute_in(all.subspan(0, gemm.workspace_bytes() - 1)); });
  expect_error(ErrorCode::workspace_too_small, {"workspace", "256"},
               [&] { execute_in(all.subspan(64, gemm.workspace_bytes())); });
  EXPECT_NO_THROW(execute_in(all.subspan(256, gemm.workspace_bytes())));
}

TEST_P(Arguments, PackedWeightsThatDoNotFit) {
  static const PackedWeights empty;
  refuse(Pass::forward, {"packed_b", "empty"}, [](auto& args) {
    args.b = {};
    args.packed_b = &empty;
  });
  refuse(Pass::forward, {"b", "packed_b"}, [](auto& args) { args.packed_b = &empty; });
  refuse(Pass::wgrad, {"packed_b", "wgrad"}, [](auto& args) {
    args.b.qdata.data = nullptr;
    args.packed_b = &empty;
  });
}

INSTANTIATE_TEST_SUITE_P(All, Arguments, ::testing::ValuesIn(runnable()),
                         [](const auto& instance) { return test_name(instance.param.name); });

}  // namespace
}  // namespace moesaic::testing
