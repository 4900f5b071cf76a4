// SPDX-License-Identifier: Apache-2.0
// The expert MLP: every implementation and order against the checker, save against recompute,
// aliasing, tails, faults, and the cases without rows.
#include "moesaic/expert_mlp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "ops/expert_mlp_case.hpp"

namespace moesaic::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Mlp : public MlpCase {
 protected:
  static MlpRun make(const Counts& counts, std::int64_t tail_rows, Format format = Format::bf16,
                     Activations activations = Activations::save) {
    return filled(problem_of(counts, tail_rows, format, activations), counts);
  }
  static void expect_finite(const HostTensor& tensor, std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = 0; expert < std::max<std::int64_t>(1, tensor.experts()); ++expert) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t column = 0; column < tensor.columns(); ++column) {
          ASSERT_TRUE(std::isfinite(tensor.get(expert, row, column)))
              << expert << " " << row << " " << column;
        }
      }
    }
  }
};

TEST_P(Mlp, WithinTheBoundOnHostileCounts) {
  on_hostile_counts([](Format format, Activations activations, const Counts& counts) {
    MlpRun run = make(counts, 5, format, activations);
    run_both(run, implementation());
    expect_right(run);
  });
}

TEST_P(Mlp, RecomputeGivesTheBitsOfSave) {
  expect_recompute_gives_the_bits_of_save(implementation(), [](Format format, Activations mode) {
    return make({20, 0, 31}, 6, format, mode);
  });
}

TEST_P(Mlp, DxMayBeTheMemoryOfX) {
  expect_dx_in_the_memory_of_x(implementation(), [](Activations activations) {
    return make({20, 0, 31}, 6, Format::bf16, activations);
  });
}

/// x, u and dy are NaN past the last expert (MlpRun leaves them so): no gradient may be.
TEST_P(Mlp, NanTailsReachNoGradient) {
  for (const Activations activations : kBothActivations) {
    for (const Tail tail : {Tail::leave, Tail::zero}) {
      MlpRun run = make({20, 0, 31}, 29, Format::bf16, activations);
      run.problem.tail = tail;
      ASSERT_TRUE(std::isnan(run.x.get(0, 60, 0)) && std::isnan(run.dy.get(0, 60, 0)));
      const RowsBefore before(run);
      const std::vector<std::byte> u = run.u.snapshot();
      run.forward(implementation());
      run.u.fill_rows(0, 51, 80, kNan);
      run.backward(implementation());
      before.expect_no_other_written(run);
      EXPECT_EQ(run.u.stray_change(u, [](auto, auto row, auto) { return row >= 0; }), "");
      expect_finite(run.y, 0, tail == Tail::zero ? 80 : 51);
      expect_finite(run.dx, 0, tail == Tail::zero ? 80 : 51);
      expect_finite(run.dw_up_gate, 0, 80);
      expect_finite(run.dw_down, 0, 24);
      expect_right(run);
    }
  }
}

/// A second backward with the same workspace and recycled outputs gives the same bits.
TEST_P(Mlp, RunsAgainInTheSameWorkspace) {
  MlpRun run = make({20, 0, 31}, 9, Format::bf16, Activations::recompute);
  const ExpertMlp mlp = run.plan(implementation());
  const HostWorkspace forward(mlp.forward_workspace_bytes());
  const HostWorkspace backward(mlp.backward_workspace_bytes());
  mlp.forward(run.forward_args(), forward.get(), Stream::cpu());
  mlp.backward(run.backward_args(), backward.get(), Stream::cpu());
  MlpRun again = make({20, 0, 31}, 9, Format::bf16, Activations::recompute);
  MlpRun poison(run.problem, {20, 55, 60});
  poison.fill(5);
  poison.x.fill(kNan);
  poison.dy.fill(kNan);
  mlp.forward(poison.forward_args(), forward.get(), Stream::cpu());
  mlp.backward(poison.backward_args(), backward.get(), Stream::cpu());
  mlp.forward(again.forward_args(), forward.get(), Stream::cpu());
  mlp.backward(again.backward_args(), backward.get(), Stream::cpu());
  expect_same(again, run);
}

TEST_P(Mlp, AllExpertsEmptyOrNoRowsAtAll) {
  for (const std::int64_t rows : {0, 17}) {
    for (const bool accumulate : {false, true}) {
      MlpRun run = make({0, 0, 0}, rows);
      run.problem.accumulate_wgrad = accumulate;
      run.dw_up_gate.fill(3);
      run.dw_down.fill(3);
      const RowsBefore before(run);
      run_both(run, implementation());
      before.expect_no_other_written(run);
      EXPECT_EQ(run.dw_up_gate.get(2, 79, 23), accumulate ? 3 : 0);
      EXPECT_EQ(run.dw_down.get(0, 23, 39), accumulate ? 3 : 0);
    }
  }
}

TEST_P(Mlp, AccumulatesIntoFp32) {
  const Counts counts = {20, 0, 31};
  ExpertMlpProblem problem = problem_of(counts, 3, Format::bf16, Activations::save);
  problem.wgrad_dtype = DType::f32;
  MlpRun fresh = filled(problem, counts);
  run_both(fresh, implementation());
  MlpRun sum = filled(problem, counts);
  sum.problem.accumulate_wgrad = true;
  sum.dw_up_gate.fill(1024);
  sum.dw_down.fill(-1024);
  run_both(sum, implementation());
  for (const auto& [total, part, old] : {std::tuple{&sum.dw_up_gate, &fresh.dw_up_gate, 1024.0},
                                         std::tuple{&sum.dw_down, &fresh.dw_down, -1024.0}}) {
    for (std::int64_t expert = 0; expert < 3; ++expert) {
      for (std::int64_t row = 0; row < total->rows(); ++row) {
        for (std::int64_t column = 0; column < total->columns(); ++column) {
          ASSERT_NEAR(total->get(expert, row, column), old + part->get(expert, row, column),
                      expert == 1 ? 0 : 1e-3);
        }
      }
    }
  }
  EXPECT_EQ(bit_difference(sum.dx, fresh.dx), "");
}

TEST_P(Mlp, WrongOffsetsAreRecordedAndContained) {
  MlpRun run = make({10, 10, 10}, 4);
  run.offs = {10, 8, 30};
  const std::vector<std::byte> y = run.y.snapshot();
  const DeviceFault forward = run.forward(implementation());
  EXPECT_EQ(forward.kind, DeviceFault::Kind::offs_not_monotonic);
  EXPECT_EQ(forward.expert, 1);
  EXPECT_EQ(forward.value, 8);
  const DeviceFault backward = run.backward(implementation());
  EXPECT_EQ(backward.expert, 1);
  EXPECT_EQ(run.y.stray_change(y, [](auto, auto row, auto) { return row < 30; }), "");
  for (std::int64_t row = 0; row < 24; ++row) {
    ASSERT_EQ(run.dw_down.bits(1, row, 3), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Mlp, MlpCase::all(), MlpCase::name_of);

}  // namespace
}  // namespace moesaic::testing
