// SPDX-License-Identifier: Apache-2.0
// The expert MLP: every implementation and order against the checker, save against recompute,
// aliasing, tails, faults, and the cases without rows.
#include "moesaic/expert_mlp.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "moesaic/check.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {
namespace {

constexpr CheckOptions kAll{-1, -1, 1};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Parameter = std::tuple<Implementation, UpGateOrder>;

class Mlp : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] static const Implementation& implementation() {
    return std::get<Implementation>(GetParam());
  }
  static MlpRun make(const Counts& counts, std::int64_t tail_rows, Format format = Format::bf16,
                     Activations activations = Activations::save,
                     const Layout& layout = kScattered) {
    ExpertMlpProblem problem =
        make_mlp(std::get<UpGateOrder>(GetParam()), format,
                 static_cast<std::int64_t>(counts.size()), total(counts) + tail_rows, 24, 40);
    problem.activations = activations;
    MlpRun run(problem, ends(counts), layout);
    run.fill(11);
    return run;
  }
  static void expect_right(MlpRun& run) {
    const CheckResult forward = check_expert_mlp_forward(run.problem, run.forward_args(), kAll);
    EXPECT_EQ(forward.mismatches, 0) << forward.first->tensor << " " << forward.first->row;
    const CheckResult backward = check_expert_mlp_backward(run.problem, run.backward_args(), kAll);
    EXPECT_EQ(backward.mismatches, 0) << backward.first->tensor << " " << backward.first->row;
    EXPECT_LE(forward.worst, 1);
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
  for (const Format format : {Format::bf16, Format::f32}) {
    for (const Activations activations : {Activations::save, Activations::recompute}) {
      for (const Counts& counts :
           {Counts{7, 0, 33, 1}, Counts{0, 0, 0, 12}, Counts{50, 0}, Counts{1}, Counts{9, 1, 1}}) {
        MlpRun run = make(counts, 5, format, activations);
        EXPECT_FALSE(run.forward(implementation()));
        EXPECT_FALSE(run.backward(implementation()));
        expect_right(run);
      }
    }
  }
}

TEST_P(Mlp, RecomputeGivesTheBitsOfSave) {
  for (const Format format : {Format::bf16, Format::f32}) {
    MlpRun save = make({20, 0, 31}, 6, format);
    MlpRun again = make({20, 0, 31}, 6, format, Activations::recompute);
    for (MlpRun* run : {&save, &again}) {
      run->forward(implementation());
      run->backward(implementation());
    }
    EXPECT_EQ(bit_difference(again.y, save.y), "");
    EXPECT_EQ(bit_difference(again.dx, save.dx), "");
    EXPECT_EQ(bit_difference(again.dw_up_gate, save.dw_up_gate), "");
    EXPECT_EQ(bit_difference(again.dw_down, save.dw_down), "");
  }
}

/// dx in the memory of x: the weight gradients still see x.
TEST_P(Mlp, DxMayBeTheMemoryOfX) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    MlpRun apart = make({20, 0, 31}, 6, Format::bf16, activations);
    MlpRun alias = make({20, 0, 31}, 6, Format::bf16, activations);
    for (MlpRun* run : {&apart, &alias}) {
      run->forward(implementation());
    }
    apart.backward(implementation());
    ExpertMlpBackwardArgs args = alias.backward_args();
    args.dx = alias.x.view();
    const ExpertMlp mlp = alias.plan(implementation());
    const HostWorkspace workspace(mlp.backward_workspace_bytes());
    mlp.backward(args, workspace.get(), Stream::cpu());
    EXPECT_EQ(bit_difference(alias.x, apart.dx), "");
    EXPECT_EQ(bit_difference(alias.dw_up_gate, apart.dw_up_gate), "");
    EXPECT_EQ(bit_difference(alias.dw_down, apart.dw_down), "");
  }
}

/// x, u and dy are NaN past the last expert (MlpRun leaves them so): no gradient may be.
TEST_P(Mlp, NanTailsReachNoGradient) {
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    for (const Tail tail : {Tail::leave, Tail::zero}) {
      const Counts counts = {20, 0, 31};
      MlpRun run = make(counts, 29, Format::bf16, activations);
      run.problem.tail = tail;
      ASSERT_TRUE(std::isnan(run.x.get(0, 60, 0)) && std::isnan(run.dy.get(0, 60, 0)));
      const std::vector<std::byte> y = run.y.snapshot();
      const std::vector<std::byte> dx = run.dx.snapshot();
      const std::vector<std::byte> u = run.u.snapshot();
      run.forward(implementation());
      run.u.fill_rows(0, 51, 80, kNan);
      run.backward(implementation());
      const auto written = [&](auto, auto row, auto) { return row < 51 || tail == Tail::zero; };
      EXPECT_EQ(run.y.stray_change(y, written), "");
      EXPECT_EQ(run.dx.stray_change(dx, written), "");
      EXPECT_EQ(run.u.stray_change(u, [](auto, auto row, auto) { return row >= 0; }), "");
      expect_finite(run.y, 0, tail == Tail::zero ? 80 : 51);
      expect_finite(run.dx, 0, tail == Tail::zero ? 80 : 51);
      expect_finite(run.dw_up_gate, 0, 80);
      expect_finite(run.dw_down, 0, 24);
      expect_right(run);
      for (std::int64_t row = 51; tail == Tail::zero && row < 80; ++row) {
        ASSERT_EQ(run.y.bits(0, row, 5), 0u);
        ASSERT_EQ(run.dx.bits(0, row, 5), 0u);
      }
    }
  }
}

/// A second backward with the same workspace and recycled outputs gives the same bits.
TEST_P(Mlp, RunsAgainInTheSameWorkspace) {
  MlpRun run = make({20, 0, 31}, 9, Format::bf16, Activations::recompute);
  const ExpertMlp mlp = run.plan(implementation());
  const HostWorkspace forward(mlp.forward_workspace_bytes());
  const HostWorkspace backward(mlp.backward_workspace_bytes());
  MlpRun other = make({1, 40, 7}, 12, Format::bf16, Activations::recompute);
  mlp.forward(run.forward_args(), forward.get(), Stream::cpu());
  mlp.backward(run.backward_args(), backward.get(), Stream::cpu());
  MlpRun again = make({20, 0, 31}, 9, Format::bf16, Activations::recompute);
  other.problem = run.problem;
  MlpRun poison(run.problem, {20, 55, 60});
  poison.fill(5);
  poison.x.fill(kNan);
  poison.dy.fill(kNan);
  mlp.forward(poison.forward_args(), forward.get(), Stream::cpu());
  mlp.backward(poison.backward_args(), backward.get(), Stream::cpu());
  mlp.forward(again.forward_args(), forward.get(), Stream::cpu());
  mlp.backward(again.backward_args(), backward.get(), Stream::cpu());
  EXPECT_EQ(bit_difference(again.y, run.y), "");
  EXPECT_EQ(bit_difference(again.dx, run.dx), "");
  EXPECT_EQ(bit_difference(again.dw_up_gate, run.dw_up_gate), "");
  EXPECT_EQ(bit_difference(again.dw_down, run.dw_down), "");
}

TEST_P(Mlp, AllExpertsEmptyOrNoRowsAtAll) {
  for (const std::int64_t rows : {0, 17}) {
    for (const bool accumulate : {false, true}) {
      MlpRun run = make({0, 0, 0}, rows);
      run.problem.accumulate_wgrad = accumulate;
      run.dw_up_gate.fill(3);
      run.dw_down.fill(3);
      const std::vector<std::byte> y = run.y.snapshot();
      const std::vector<std::byte> dx = run.dx.snapshot();
      EXPECT_FALSE(run.forward(implementation()));
      EXPECT_FALSE(run.backward(implementation()));
      const auto nothing = [](auto, auto, auto) { return false; };
      EXPECT_EQ(run.y.stray_change(y, nothing), "");
      EXPECT_EQ(run.dx.stray_change(dx, nothing), "");
      EXPECT_EQ(run.dw_up_gate.get(2, 79, 23), accumulate ? 3 : 0);
      EXPECT_EQ(run.dw_down.get(0, 23, 39), accumulate ? 3 : 0);
    }
  }
}

TEST_P(Mlp, AccumulatesIntoFp32) {
  MlpRun fresh = make({20, 0, 31}, 3);
  fresh.problem.wgrad_dtype = DType::f32;
  fresh = [&] {
    MlpRun run(fresh.problem, ends({20, 0, 31}), kScattered);
    run.fill(11);
    return run;
  }();
  fresh.forward(implementation());
  fresh.backward(implementation());
  MlpRun sum(fresh.problem, ends({20, 0, 31}), kScattered);
  sum.fill(11);
  sum.problem.accumulate_wgrad = true;
  sum.dw_up_gate.fill(1024);
  sum.dw_down.fill(-1024);
  sum.forward(implementation());
  sum.backward(implementation());
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

INSTANTIATE_TEST_SUITE_P(All, Mlp,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllOrders)),
                         [](const auto& instance) {
                           return test_name(std::get<0>(instance.param).name + "_" +
                                            std::string(name(std::get<1>(instance.param))));
                         });

}  // namespace
}  // namespace moesaic::testing
