// SPDX-License-Identifier: Apache-2.0
// The expert MLP on rows of x that lie anywhere: every implementation and order against the
// checker, and bit for bit against rows that were copied by hand; tails, faults, parts, memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "moesaic/check.hpp"
#include "support/expect_error.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr CheckOptions kAll{-1, -1, 1};
constexpr XRows kBoth[] = {XRows::indexed, XRows::copied};

using Parameter = std::tuple<Implementation, UpGateOrder>;

class MlpXRows : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] static const Implementation& implementation() {
    return std::get<Implementation>(GetParam());
  }
  static MlpRun make(const Counts& counts, std::int64_t tail_rows, XRows x_rows = XRows::indexed,
                     Activations activations = Activations::save, Format format = Format::bf16,
                     bool weighted = false) {
    ExpertMlpProblem problem =
        make_mlp(std::get<UpGateOrder>(GetParam()), format,
                 static_cast<std::int64_t>(counts.size()), total(counts) + tail_rows, 24, 40);
    problem.activations = activations;
    problem.x_rows = x_rows;
    problem.row_weights = weighted;
    MlpRun run(problem, ends(counts), kScattered);
    run.fill(11);
    return run;
  }
  /// The same with its rows copied: x [M, d], zeros where an index is outside, NaN in the tail.
  static MlpRun in_order(const MlpRun& gathered, const Counts& counts) {
    MlpRun run =
        make(counts, gathered.problem.max_rows - total(counts), XRows::in_order,
             gathered.problem.activations, gathered.problem.format, gathered.problem.row_weights);
    for (std::int64_t row = 0; row < total(counts); ++row) {
      const std::int32_t from = gathered.x_rows[static_cast<std::size_t>(row)];
      for (std::int64_t column = 0; column < run.problem.d; ++column) {
        const bool exists = from >= 0 && from < MlpRun::kTokens;
        run.x.set(0, row, column, exists ? gathered.x.get(0, from, column) : 0);
      }
    }
    return run;
  }
  static void run_both(MlpRun& run) {
    EXPECT_FALSE(run.forward(implementation()));
    EXPECT_FALSE(run.backward(implementation()));
  }
  static void expect_right(MlpRun& run) {
    const CheckResult forward = check_expert_mlp_forward(run.problem, run.forward_args(), kAll);
    EXPECT_EQ(forward.mismatches, 0) << forward.first->tensor << " " << forward.first->row;
    const CheckResult backward = check_expert_mlp_backward(run.problem, run.backward_args(), kAll);
    EXPECT_EQ(backward.mismatches, 0) << backward.first->tensor << " " << backward.first->row;
    EXPECT_GT(forward.elements + backward.elements, 0);
  }
  static void expect_same(const MlpRun& got, const MlpRun& want) {
    EXPECT_EQ(bit_difference(got.y, want.y), "");
    EXPECT_EQ(bit_difference(got.dx, want.dx), "");
    EXPECT_EQ(bit_difference(got.dw_up_gate, want.dw_up_gate), "");
    EXPECT_EQ(bit_difference(got.dw_down, want.dw_down), "");
    if (got.saves()) {
      EXPECT_EQ(bit_difference(got.u, want.u), "");
    }
  }
};

TEST_P(MlpXRows, WithinTheBoundAndTheBitsOfCopiedRowsOnHostileCounts) {
  for (const XRows x_rows : kBoth) {
    for (const Format format : {Format::bf16, Format::f32}) {
      for (const Activations activations : {Activations::save, Activations::recompute}) {
        for (const Counts& counts :
             {Counts{7, 0, 33, 1}, Counts{0, 0, 0, 12}, Counts{50, 0}, Counts{1}}) {
          SCOPED_TRACE(std::string(name(x_rows)) + " " + std::string(name(activations)));
          MlpRun run = make(counts, 5, x_rows, activations, format);
          MlpRun copied = in_order(run, counts);
          run_both(run);
          run_both(copied);
          expect_right(run);
          expect_same(run, copied);
        }
      }
    }
  }
}

TEST_P(MlpXRows, WithWeightsOfRows) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    const Counts counts = {20, 0, 31};
    MlpRun run = make(counts, 6, XRows::indexed, activations, Format::bf16, true);
    MlpRun copied = in_order(run, counts);
    run_both(run);
    run_both(copied);
    expect_right(run);
    expect_same(run, copied);
    EXPECT_EQ(std::memcmp(run.drow_weights.data(), copied.drow_weights.data(), 51 * sizeof(float)),
              0);
  }
}

/// Whatever lies behind the last segment, and in rows of x that nobody is, reaches nothing.
TEST_P(MlpXRows, RowsOfNobodyReachNothing) {
  for (const Tail tail : {Tail::leave, Tail::zero}) {
    MlpRun run = make({20, 0, 31}, 29);
    ASSERT_TRUE(std::isnan(run.x.get(0, MlpRun::kTokens - 1, 0))) << "a row that nobody is";
    run.problem.tail = tail;
    const std::vector<std::byte> y = run.y.snapshot();
    const std::vector<std::byte> dx = run.dx.snapshot();
    run_both(run);
    const auto written = [&](auto, auto row, auto) { return row < 51 || tail == Tail::zero; };
    EXPECT_EQ(run.y.stray_change(y, written), "");
    EXPECT_EQ(run.dx.stray_change(dx, written), "");
    expect_right(run);
  }
}

TEST_P(MlpXRows, AnIndexOutsideIsARowOfZeros) {
  MlpRun run = make({20, 0, 31}, 0);
  run_both(run);
  for (std::int64_t row = 0; row < 51; ++row) {
    const bool outside = row % 9 == 4;
    const std::int32_t index = run.x_rows[static_cast<std::size_t>(row)];
    ASSERT_EQ(index < 0 || index >= MlpRun::kTokens, outside) << row;
    EXPECT_EQ(run.y.get(0, row, 7) == 0 && run.dx.get(0, row, 7) == 0, outside) << row;
  }
}

TEST_P(MlpXRows, NoRowsOfXAtAll) {
  MlpRun run = make({20, 0, 31}, 4);
  run_both(run);
  ExpertMlpForwardArgs args = run.forward_args();
  args.x.shape[0] = 0;
  args.x.data = nullptr;
  const ExpertMlp mlp = run.plan(implementation());
  const HostWorkspace workspace(mlp.forward_workspace_bytes());
  mlp.forward(args, workspace.get(), Stream::cpu());
  for (std::int64_t row = 0; row < 51; ++row) {
    ASSERT_EQ(run.y.get(0, row, 7), 0) << row;
  }
}

/// Any part of the gradients has the bits that it has among all, and the rest is not written.
TEST_P(MlpXRows, OnlyWantedGradientsAreWritten) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun all = make({20, 0, 31}, 9, XRows::indexed, activations);
    run_both(all);
    for (unsigned wanted = 1; wanted < 8; ++wanted) {
      MlpRun run = make({20, 0, 31}, 9, XRows::indexed, activations);
      run.forward(implementation());
      const MlpRun fresh = make({20, 0, 31}, 9, XRows::indexed, activations);
      ExpertMlpBackwardArgs args = run.backward_args();
      TensorView* gradients[] = {&args.dx, &args.dw_up_gate, &args.dw_down};
      for (unsigned i = 0; i < 3; ++i) {
        if ((wanted >> i & 1U) == 0) {
          *gradients[i] = {};
        }
      }
      const ExpertMlp mlp = run.plan(implementation());
      const HostWorkspace workspace(mlp.backward_workspace_bytes());
      mlp.backward(args, workspace.get(), Stream::cpu());
      const auto from = [&](unsigned i) -> const MlpRun& {
        return (wanted >> i & 1U) != 0 ? all : fresh;
      };
      EXPECT_EQ(bit_difference(run.dx, from(0).dx), "") << wanted;
      EXPECT_EQ(bit_difference(run.dw_up_gate, from(1).dw_up_gate), "") << wanted;
      EXPECT_EQ(bit_difference(run.dw_down, from(2).dw_down), "") << wanted;
    }
  }
}

/// The copied rows are intermediates like others: apart, in memory of any content and no more than
/// is asked for.
TEST_P(MlpXRows, ScratchMayLieApart) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun within = make({20, 0, 31}, 6, XRows::indexed, activations);
    run_both(within);
    MlpRun apart = make({20, 0, 31}, 6, XRows::indexed, activations);
    const ExpertMlp mlp = apart.plan(implementation());
    const HostWorkspace forward(mlp.forward_workspace_bytes() - mlp.forward_scratch_bytes());
    const HostWorkspace backward(mlp.backward_workspace_bytes() - mlp.backward_scratch_bytes());
    const HostWorkspace forward_scratch(mlp.forward_scratch_bytes());
    const HostWorkspace backward_scratch(mlp.backward_scratch_bytes());
    for (const HostWorkspace* scratch : {&forward_scratch, &backward_scratch}) {
      std::memset(scratch->get().bytes.data(), 0xFF, scratch->get().bytes.size());
    }
    ExpertMlpForwardArgs forward_args = apart.forward_args();
    forward_args.scratch = forward_scratch.get();
    mlp.forward(forward_args, forward.get(), Stream::cpu());
    ExpertMlpBackwardArgs backward_args = apart.backward_args();
    backward_args.scratch = backward_scratch.get();
    mlp.backward(backward_args, backward.get(), Stream::cpu());
    expect_same(apart, within);
  }
}

TEST_P(MlpXRows, WrongOffsetsAreContained) {
  MlpRun run = make({10, 10, 10}, 4);
  run.offs = {10, 8, 40};  // 40 is past M
  const std::vector<std::byte> y = run.y.snapshot();
  EXPECT_EQ(run.forward(implementation()).expert, 1);
  EXPECT_EQ(run.backward(implementation()).expert, 1);
  EXPECT_EQ(run.y.stray_change(y, [](auto, auto row, auto) { return row < 10; }), "");
}

TEST_P(MlpXRows, SaysThatItCopiesAndWhatThatTakes) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun plain = make({20, 0, 31}, 6, XRows::in_order, activations);
    MlpRun run = make({20, 0, 31}, 6, XRows::indexed, activations);
    const ExpertMlp without = plain.plan(implementation());
    const ExpertMlp with = run.plan(implementation());
    EXPECT_FALSE(without.copies_x());
    EXPECT_TRUE(with.copies_x()) << "no kernel of the CPU finds rows";
    const std::size_t copy = std::size_t{57} * 24 * 2;  // and what rounding up may add
    EXPECT_GE(with.forward_scratch_bytes(), without.forward_scratch_bytes() + copy);
    EXPECT_LT(with.forward_scratch_bytes(), without.forward_scratch_bytes() + copy + 512);
    EXPECT_GE(with.backward_scratch_bytes(), without.backward_scratch_bytes() + copy);
    EXPECT_LT(with.backward_scratch_bytes(), without.backward_scratch_bytes() + copy + 512);
  }
}

TEST_P(MlpXRows, RefusalsNameTheArgument) {
  MlpRun run = make({20, 0, 31}, 6);
  const ExpertMlp mlp = run.plan(implementation());
  const HostWorkspace workspace(
      std::max(mlp.forward_workspace_bytes(), mlp.backward_workspace_bytes()));
  const auto refuse = [&](std::initializer_list<std::string_view> parts, const auto& spoil) {
    ExpertMlpForwardArgs forward = run.forward_args();
    spoil(forward);
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { mlp.forward(forward, workspace.get(), Stream::cpu()); });
    ExpertMlpBackwardArgs backward = run.backward_args();
    spoil(backward);
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { mlp.backward(backward, workspace.get(), Stream::cpu()); });
  };
  refuse({"x_rows", "i32 [57]"}, [](auto& args) { args.x_rows = {}; });
  refuse({"x_rows", "i32 [57]"}, [](auto& args) { args.x_rows.shape[0] = 56; });
  refuse({"x_rows", "i32 [57]"}, [](auto& args) { args.x_rows.dtype = DType::f32; });
  refuse({"x_rows", "null"}, [](auto& args) { args.x_rows.data = nullptr; });
  refuse({"x", "[23, 24]"}, [](auto& args) { args.x.shape[1] = 16; });
  refuse({"x.shape[0]", "-1"}, [](auto& args) { args.x.shape[0] = -1; });
  refuse({"x.shape[0]", "2147483648"}, [](auto& args) { args.x.shape[0] = std::int64_t{1} << 31; });
  expect_error(ErrorCode::invalid_argument, {"y", "apart from x_rows"}, [&] {
    ExpertMlpForwardArgs overlapping = run.forward_args();
    overlapping.x_rows.data = overlapping.y.data;
    mlp.forward(overlapping, workspace.get(), Stream::cpu());
  });
  expect_error(ErrorCode::invalid_argument, {"dw_down", "apart from x_rows"}, [&] {
    ExpertMlpBackwardArgs overlapping = run.backward_args();
    overlapping.x_rows.data = overlapping.dw_down.data;
    mlp.backward(overlapping, workspace.get(), Stream::cpu());
  });
  ExpertMlpBackwardArgs alias = run.backward_args();
  alias.dx.data = const_cast<void*>(alias.x.data);
  alias.dx.stride = alias.x.stride;
  expect_error(ErrorCode::invalid_argument, {"dx", "apart from x"},
               [&] { mlp.backward(alias, workspace.get(), Stream::cpu()); });

  MlpRun plain = make({20, 0, 31}, 6, XRows::in_order);
  const ExpertMlp in_order = plain.plan(implementation());
  ExpertMlpForwardArgs args = plain.forward_args();
  args.x_rows = run.x_rows_view();
  expect_error(ErrorCode::invalid_argument, {"x_rows", "in_order", "i32 [57]"},
               [&] { in_order.forward(args, workspace.get(), Stream::cpu()); });
}

INSTANTIATE_TEST_SUITE_P(All, MlpXRows,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllOrders)),
                         [](const auto& instance) {
                           return test_name(std::get<0>(instance.param).name + "_" +
                                            std::string(name(std::get<1>(instance.param))));
                         });

}  // namespace
}  // namespace moesaic::testing
