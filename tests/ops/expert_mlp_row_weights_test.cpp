// SPDX-License-Identifier: Apache-2.0
// The expert MLP with weights of rows: every implementation and order against the checker, tails,
// faults, parts, and what must not change by them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/expert_mlp_case.hpp"

namespace moesaic::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class MlpRowWeights : public MlpCase {
 protected:
  static MlpRun make(const Counts& counts, std::int64_t tail_rows, Format format = Format::bf16,
                     Activations activations = Activations::save, bool weighted = true,
                     std::int64_t h = 40) {
    ExpertMlpProblem problem = problem_of(counts, tail_rows, format, activations);
    problem.row_weights = weighted;
    problem.h = h;
    return filled(problem, counts);
  }
};

TEST_P(MlpRowWeights, WithinTheBoundOnHostileCounts) {
  on_hostile_counts([](Format format, Activations activations, const Counts& counts) {
    MlpRun run = make(counts, 5, format, activations);
    run_both(run, implementation());
    expect_right(run);
  });
}

/// More columns of H than a block or a warp takes at once, and a rest.
TEST_P(MlpRowWeights, ManyColumns) {
  MlpRun run = make({2, 0, 3}, 1, Format::bf16, Activations::save, true, 2 * 256 + 24);
  run_both(run, implementation());
  expect_right(run);
}

TEST_P(MlpRowWeights, RecomputeGivesTheBitsOfSave) {
  expect_recompute_gives_the_bits_of_save(implementation(), [](Format format, Activations mode) {
    return make({20, 0, 31}, 6, format, mode);
  });
}

/// Weights of one change no gradient, and weights of zero give zeros.
TEST_P(MlpRowWeights, OfOneAndOfZero) {
  MlpRun plain = make({20, 0, 31}, 0, Format::bf16, Activations::save, false);
  MlpRun ones = make({20, 0, 31}, 0);
  ones.row_weights.assign(51, 1);
  run_both(plain, implementation());
  run_both(ones, implementation());
  EXPECT_EQ(bit_difference(ones.dx, plain.dx), "");
  EXPECT_EQ(bit_difference(ones.dw_up_gate, plain.dw_up_gate), "");
  EXPECT_EQ(bit_difference(ones.dw_down, plain.dw_down), "");

  MlpRun zeros = make({20, 0, 31}, 0);
  zeros.row_weights.assign(51, 0);
  run_both(zeros, implementation());
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
  for (const Activations activations : kBothActivations) {
    for (const Tail tail : {Tail::leave, Tail::zero}) {
      MlpRun run = make({20, 0, 31}, 29, Format::bf16, activations);
      run.problem.tail = tail;
      ASSERT_TRUE(std::isnan(run.row_weights[60]) && std::isnan(run.dy.get(0, 60, 0)));
      std::fill(run.drow_weights.begin(), run.drow_weights.end(), 7.0F);
      const RowsBefore before(run);
      run_both(run, implementation());
      before.expect_no_other_written(run);
      expect_right(run);
      for (std::size_t row = 51; row < 80; ++row) {
        ASSERT_EQ(run.drow_weights[row], tail == Tail::zero ? 0.0F : 7.0F);
      }
    }
  }
}

TEST_P(MlpRowWeights, DxMayBeTheMemoryOfX) {
  expect_dx_in_the_memory_of_x(implementation(), [](Activations activations) {
    return make({20, 0, 31}, 6, Format::bf16, activations);
  });
}

TEST_P(MlpRowWeights, OnlyWantedGradientsAreWritten) {
  expect_only_wanted_gradients(implementation(), [](Activations activations) {
    return make({20, 0, 31}, 9, Format::bf16, activations);
  });
}

TEST_P(MlpRowWeights, ScratchMayLieApart) {
  expect_scratch_may_lie_apart(implementation(), [](Activations activations) {
    return make({20, 0, 31}, 6, Format::bf16, activations);
  });
}

TEST_P(MlpRowWeights, PackedWeights) {
  MlpRun plain = make({20, 0, 31}, 6);
  run_both(plain, implementation());
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
    run_both(run, implementation());
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
  run_both(run, implementation());
  run_both(other, implementation());
  for (std::int64_t row = 0; row < 20; ++row) {
    ASSERT_EQ(other.y.bits(0, row, 3), run.y.bits(0, row, 3));
    ASSERT_EQ(other.dx.bits(0, row, 3), run.dx.bits(0, row, 3));
  }
  EXPECT_TRUE(same_bits(other.drow_weights, run.drow_weights))
      << "no weight is in its own gradient";
  EXPECT_EQ(other.dw_down.get(0, 3, 4), run.dw_down.get(0, 3, 4));
  EXPECT_TRUE(std::isnan(other.dw_down.get(2, 3, 4)));
}

INSTANTIATE_TEST_SUITE_P(All, MlpRowWeights, MlpCase::all(), MlpCase::name_of);

}  // namespace
}  // namespace moesaic::testing
