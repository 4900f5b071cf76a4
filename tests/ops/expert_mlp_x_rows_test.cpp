// SPDX-License-Identifier: Apache-2.0
// The expert MLP on rows of x that lie anywhere: every implementation and order against the
// checker, and bit for bit against rows that were copied by hand; tails, faults, parts, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "ops/expert_mlp_case.hpp"
#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

class MlpXRows : public MlpCase {
 protected:
  static MlpRun make(const Counts& counts, std::int64_t tail_rows, XRows x_rows = XRows::indexed,
                     Activations activations = Activations::save, Format format = Format::bf16,
                     bool weighted = false) {
    ExpertMlpProblem problem = problem_of(counts, tail_rows, format, activations);
    problem.x_rows = x_rows;
    problem.row_weights = weighted;
    return filled(problem, counts);
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
};

TEST_P(MlpXRows, WithinTheBoundAndTheBitsOfCopiedRowsOnHostileCounts) {
  for (const XRows x_rows : {XRows::indexed, XRows::copied}) {
    SCOPED_TRACE(name(x_rows));
    on_hostile_counts([&](Format format, Activations activations, const Counts& counts) {
      MlpRun run = make(counts, 5, x_rows, activations, format);
      MlpRun copied = in_order(run, counts);
      run_both(run, implementation());
      run_both(copied, implementation());
      expect_right(run);
      expect_same(run, copied);
    });
  }
}

TEST_P(MlpXRows, WithWeightsOfRows) {
  for (const Activations activations : kBothActivations) {
    const Counts counts = {20, 0, 31};
    MlpRun run = make(counts, 6, XRows::indexed, activations, Format::bf16, true);
    MlpRun copied = in_order(run, counts);
    run_both(run, implementation());
    run_both(copied, implementation());
    expect_right(run);
    expect_same(run, copied);
  }
}

/// Whatever lies behind the last segment, and in rows of x that nobody is, reaches nothing.
TEST_P(MlpXRows, RowsOfNobodyReachNothing) {
  for (const Tail tail : {Tail::leave, Tail::zero}) {
    MlpRun run = make({20, 0, 31}, 29);
    ASSERT_TRUE(std::isnan(run.x.get(0, MlpRun::kTokens - 1, 0))) << "a row that nobody is";
    run.problem.tail = tail;
    const RowsBefore before(run);
    run_both(run, implementation());
    before.expect_no_other_written(run);
    expect_right(run);
  }
}

TEST_P(MlpXRows, AnIndexOutsideIsARowOfZeros) {
  MlpRun run = make({20, 0, 31}, 0);
  run_both(run, implementation());
  for (std::int64_t row = 0; row < 51; ++row) {
    const bool outside = row % 9 == 4;
    const std::int32_t index = run.x_rows[static_cast<std::size_t>(row)];
    ASSERT_EQ(index < 0 || index >= MlpRun::kTokens, outside) << row;
    EXPECT_EQ(run.y.get(0, row, 7) == 0 && run.dx.get(0, row, 7) == 0, outside) << row;
  }
}

TEST_P(MlpXRows, NoRowsOfXAtAll) {
  MlpRun run = make({20, 0, 31}, 4);
  run_both(run, implementation());
  ExpertMlpForwardArgs args = run.forward_args();
  args.x.shape[0] = 0;
  args.x.data = nullptr;
  run.forward(implementation(), args);
  for (std::int64_t row = 0; row < 51; ++row) {
    ASSERT_EQ(run.y.get(0, row, 7), 0) << row;
  }
}

TEST_P(MlpXRows, OnlyWantedGradientsAreWritten) {
  expect_only_wanted_gradients(implementation(), [](Activations activations) {
    return make({20, 0, 31}, 9, XRows::indexed, activations);
  });
}

/// The copied rows are intermediates like others.
TEST_P(MlpXRows, ScratchMayLieApart) {
  expect_scratch_may_lie_apart(implementation(), [](Activations activations) {
    return make({20, 0, 31}, 6, XRows::indexed, activations);
  });
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
  for (const Activations activations : kBothActivations) {
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

INSTANTIATE_TEST_SUITE_P(All, MlpXRows, MlpCase::all(), MlpCase::name_of);

}  // namespace
}  // namespace moesaic::testing
