// SPDX-License-Identifier: Apache-2.0
// The expert MLP with weights of rows: every implementation and order against the checker, tails,
// faults, parts, and what must not change by them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "moesaic/check.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr CheckOptions kAll{-1, -1, 1};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Parameter = std::tuple<Implementation, UpGateOrder>;

class MlpRowWeights : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] static const Implementation& implementation() {
    return std::get<Implementation>(GetParam());
  }
  static MlpRun make(const Counts& counts, std::int64_t tail_rows, Format format = Format::bf16,
                     Activations activations = Activations::save, bool weighted = true,
                     std::int64_t h = 40) {
    ExpertMlpProblem problem =
        make_mlp(std::get<UpGateOrder>(GetParam()), format,
                 static_cast<std::int64_t>(counts.size()), total(counts) + tail_rows, 24, h);
    problem.activations = activations;
    problem.row_weights = weighted;
    MlpRun run(problem, ends(counts), kScattered);
    run.fill(11);
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
  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  static void expect_same(const MlpRun& got, const MlpRun& want, const std::string& what = "") {
    EXPECT_EQ(bit_difference(got.y, want.y), "") << what;
    EXPECT_EQ(bit_difference(got.dx, want.dx), "") << what;
    EXPECT_EQ(bit_difference(got.dw_up_gate, want.dw_up_gate), "") << what;
    EXPECT_EQ(bit_difference(got.dw_down, want.dw_down), "") << what;
    EXPECT_TRUE(same_bits(got.drow_weights, want.drow_weights)) << what;
  }
};

TEST_P(MlpRowWeights, WithinTheBoundOnHostileCounts) {
  for (const Format format : {Format::bf16, Format::f32}) {
    for (const Activations activations : {Activations::save, Activations::recompute}) {
      for (const Counts& counts :
           {Counts{7, 0, 33, 1}, Counts{0, 0, 0, 12}, Counts{50, 0}, Counts{1}, Counts{9, 1, 1}}) {
        MlpRun run = make(counts, 5, format, activations);
        run_both(run);
        expect_right(run);
      }
    }
  }
}

/// More columns of H than a block or a warp takes at once, and a rest.
TEST_P(MlpRowWeights, ManyColumns) {
  MlpRun run = make({2, 0, 3}, 1, Format::bf16, Activations::save, true, 2 * 256 + 24);
  run_both(run);
  expect_right(run);
}

TEST_P(MlpRowWeights, RecomputeGivesTheBitsOfSave) {
  for (const Format format : {Format::bf16, Format::f32}) {
    MlpRun save = make({20, 0, 31}, 6, format);
    MlpRun again = make({20, 0, 31}, 6, format, Activations::recompute);
    run_both(save);
    run_both(again);
    expect_same(again, save);
  }
}

/// Weights of one change no gradient, and weights of zero give zeros.
TEST_P(MlpRowWeights, OfOneAndOfZero) {
  MlpRun plain = make({20, 0, 31}, 0, Format::bf16, Activations::save, false);
  MlpRun ones = make({20, 0, 31}, 0);
  ones.row_weights.assign(51, 1);
  run_both(plain);
  run_both(ones);
  EXPECT_EQ(bit_difference(ones.dx, plain.dx), "");
  EXPECT_EQ(bit_difference(ones.dw_up_gate, plain.dw_up_gate), "");
  EXPECT_EQ(bit_difference(ones.dw_down, plain.dw_down), "");

  MlpRun zeros = make({20, 0, 31}, 0);
  zeros.row_weights.assign(51, 0);
  run_both(zeros);
  EXPECT_TRUE(same_bits(zeros.drow_weights, ones.drow_weights)) << "they do not depend on them";
  for (std::int64_t row = 0; row < 51; ++row) {
    ASSERT_EQ(zeros.y.get(0, row, 7), 0);
    ASSERT_EQ(zeros.dx.get(0, row, 7), 0);
  }
  EXPECT_EQ(zeros.dw_down.get(2, 3, 4), 0);
  EXPECT_EQ(zeros.dw_up_gate.get(0, 3, 4), 0);
}

/// x, u, dy and the weights are NaN past the last expert; the gradient of the weights is left there
/// or zero, as y and dx are.
TEST_P(MlpRowWeights, NanTailsReachNothing) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    for (const Tail tail : {Tail::leave, Tail::zero}) {
      MlpRun run = make({20, 0, 31}, 29, Format::bf16, activations);
      run.problem.tail = tail;
      ASSERT_TRUE(std::isnan(run.row_weights[60]) && std::isnan(run.dy.get(0, 60, 0)));
      std::fill(run.drow_weights.begin(), run.drow_weights.end(), 7.0F);
      const std::vector<std::byte> y = run.y.snapshot();
      const std::vector<std::byte> dx = run.dx.snapshot();
      run_both(run);
      const auto written = [&](auto, auto row, auto) { return row < 51 || tail == Tail::zero; };
      EXPECT_EQ(run.y.stray_change(y, written), "");
      EXPECT_EQ(run.dx.stray_change(dx, written), "");
      expect_right(run);
      for (std::size_t row = 51; row < 80; ++row) {
        ASSERT_EQ(run.drow_weights[row], tail == Tail::zero ? 0.0F : 7.0F);
      }
      for (std::int64_t row = 51; tail == Tail::zero && row < 80; ++row) {
        ASSERT_EQ(run.y.bits(0, row, 5), 0u);
        ASSERT_EQ(run.dx.bits(0, row, 5), 0u);
      }
    }
  }
}

TEST_P(MlpRowWeights, DxMayBeTheMemoryOfX) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun apart = make({20, 0, 31}, 6, Format::bf16, activations);
    MlpRun alias = make({20, 0, 31}, 6, Format::bf16, activations);
    run_both(apart);
    alias.forward(implementation());
    ExpertMlpBackwardArgs args = alias.backward_args();
    args.dx = alias.x.view();
    const ExpertMlp mlp = alias.plan(implementation());
    const HostWorkspace workspace(mlp.backward_workspace_bytes());
    mlp.backward(args, workspace.get(), Stream::cpu());
    EXPECT_EQ(bit_difference(alias.x, apart.dx), "");
    EXPECT_EQ(bit_difference(alias.dw_up_gate, apart.dw_up_gate), "");
    EXPECT_EQ(bit_difference(alias.dw_down, apart.dw_down), "");
    EXPECT_TRUE(same_bits(alias.drow_weights, apart.drow_weights));
  }
}

/// Any part of the gradients has the bits that it has among all, and the rest is not written.
TEST_P(MlpRowWeights, OnlyWantedGradientsAreWritten) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun all = make({20, 0, 31}, 9, Format::bf16, activations);
    run_both(all);
    for (unsigned wanted = 1; wanted < 16; ++wanted) {
      MlpRun run = make({20, 0, 31}, 9, Format::bf16, activations);
      run.forward(implementation());
      const MlpRun fresh = make({20, 0, 31}, 9, Format::bf16, activations);
      ExpertMlpBackwardArgs args = run.backward_args();
      TensorView* gradients[] = {&args.dx, &args.dw_up_gate, &args.dw_down, &args.drow_weights};
      for (unsigned i = 0; i < 4; ++i) {
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
      EXPECT_TRUE(same_bits(run.drow_weights, from(3).drow_weights)) << wanted;
    }
  }
}

/// The intermediates may lie apart, in memory of any content.
TEST_P(MlpRowWeights, ScratchMayLieApart) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun within = make({20, 0, 31}, 6, Format::bf16, activations);
    run_both(within);
    MlpRun apart = make({20, 0, 31}, 6, Format::bf16, activations);
    const ExpertMlp mlp = apart.plan(implementation());
    const HostWorkspace forward(mlp.forward_workspace_bytes() - mlp.forward_scratch_bytes());
    const HostWorkspace backward(mlp.backward_workspace_bytes() - mlp.backward_scratch_bytes());
    const HostWorkspace scratch(
        std::max(mlp.forward_scratch_bytes(), mlp.backward_scratch_bytes()));
    std::memset(scratch.get().bytes.data(), 0xFF, scratch.get().bytes.size());  // NaN
    ExpertMlpForwardArgs args = apart.forward_args();
    args.scratch = scratch.get();
    mlp.forward(args, forward.get(), Stream::cpu());
    ExpertMlpBackwardArgs back = apart.backward_args();
    back.scratch = scratch.get();
    mlp.backward(back, backward.get(), Stream::cpu());
    expect_same(apart, within);
  }
}

TEST_P(MlpRowWeights, PackedWeights) {
  MlpRun plain = make({20, 0, 31}, 6);
  run_both(plain);
  MlpRun run = make({20, 0, 31}, 6);
  const ExpertMlp mlp = run.plan(implementation());
  moesaic::PackedWeights down;
  try {
    down = mlp.pack_down({run.w_down.view(), {}}, Stream::cpu());
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::unsupported));
    return;  // and packed weights of another implementation are refused: MlpArguments
  }
  ExpertMlpForwardArgs args = run.forward_args();
  args.w_down = {};
  args.packed_down = &down;
  const HostWorkspace workspace(mlp.forward_workspace_bytes());
  mlp.forward(args, workspace.get(), Stream::cpu());
  const CheckResult result = check_expert_mlp_forward(run.problem, run.forward_args(), kAll);
  EXPECT_EQ(result.mismatches, 0);
}

TEST_P(MlpRowWeights, AllExpertsEmptyOrNoRowsAtAll) {
  for (const std::int64_t rows : {0, 17}) {
    MlpRun run = make({0, 0, 0}, rows);
    run.problem.tail = Tail::zero;
    run_both(run);
    EXPECT_EQ(run.dw_down.get(0, 23, 39), 0);
    EXPECT_EQ(std::count(run.drow_weights.begin(), run.drow_weights.end(), 0.0F), rows);
  }
}

/// Rows of no valid segment keep what they were, before the tail too.
TEST_P(MlpRowWeights, WrongOffsetsAreContained) {
  for (const Tail tail : {Tail::leave, Tail::zero}) {
    MlpRun run = make({10, 10, 10}, 4);
    run.problem.tail = tail;
    run.offs = {10, 8, 40};  // 40 is past M, so that no tail is known and row 10 is of nobody
    std::fill(run.drow_weights.begin(), run.drow_weights.end(), 7.0F);
    const std::vector<std::byte> y = run.y.snapshot();
    EXPECT_EQ(run.forward(implementation()).expert, 1);
    EXPECT_EQ(run.backward(implementation()).expert, 1);
    EXPECT_EQ(run.y.stray_change(y, [](auto, auto row, auto) { return row < 10; }), "");
    for (std::size_t row = 0; row < 34; ++row) {
      ASSERT_EQ(run.drow_weights[row] == 7.0F, row >= 10) << row;
    }
  }
}

/// A row's bits depend on its own weight, not on its neighbours' or on how many threads there are.
TEST_P(MlpRowWeights, RowsAreIndependent) {
  MlpRun run = make({20, 0, 31}, 0);
  MlpRun other = make({20, 0, 31}, 0);
  std::fill(other.row_weights.begin() + 20, other.row_weights.end(), kNan);
  run_both(run);
  run_both(other);
  for (std::int64_t row = 0; row < 20; ++row) {
    ASSERT_EQ(other.y.bits(0, row, 3), run.y.bits(0, row, 3));
    ASSERT_EQ(other.dx.bits(0, row, 3), run.dx.bits(0, row, 3));
  }
  EXPECT_TRUE(same_bits(other.drow_weights, run.drow_weights))
      << "no weight is in its own gradient";
  EXPECT_EQ(other.dw_down.get(0, 3, 4), run.dw_down.get(0, 3, 4));
  EXPECT_TRUE(std::isnan(other.dw_down.get(2, 3, 4)));
}

INSTANTIATE_TEST_SUITE_P(All, MlpRowWeights,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllOrders)),
                         [](const auto& instance) {
                           return test_name(std::get<0>(instance.param).name + "_" +
                                            std::string(name(std::get<1>(instance.param))));
                         });

}  // namespace
}  // namespace moesaic::testing
