// SPDX-License-Identifier: Apache-2.0
// What the tests of the expert MLP on the CPU share: their parameters, how a run is made and
// judged, and what holds whether or not rows have weights or lie anywhere.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "moesaic/check.hpp"
#include "support/counts.hpp"
#include "support/mlp_run.hpp"

namespace moesaic::testing {

inline constexpr CheckOptions kAll{-1, -1, 1};
inline constexpr Activations kBothActivations[] = {Activations::save, Activations::recompute};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline void run_both(MlpRun& run, const Implementation& implementation) {
  EXPECT_FALSE(run.forward(implementation));
  EXPECT_FALSE(run.backward(implementation));
}

/// Every element of both results within the bound of the checker.
inline void expect_right(MlpRun& run) {
  const CheckResult forward = check_expert_mlp_forward(run.problem, run.forward_args(), kAll);
  EXPECT_EQ(forward.mismatches, 0) << forward.first->tensor << " " << forward.first->row;
  const CheckResult backward = check_expert_mlp_backward(run.problem, run.backward_args(), kAll);
  EXPECT_EQ(backward.mismatches, 0) << backward.first->tensor << " " << backward.first->row;
  EXPECT_LE(std::max(forward.worst, backward.worst), 1);
  EXPECT_GT(forward.elements + backward.elements, 0);
}

/// Bit for bit; U where `got` saves it.
inline void expect_same(const MlpRun& got, const MlpRun& want) {
  EXPECT_EQ(bit_difference(got.y, want.y), "");
  EXPECT_EQ(bit_difference(got.dx, want.dx), "");
  EXPECT_EQ(bit_difference(got.dw_up_gate, want.dw_up_gate), "");
  EXPECT_EQ(bit_difference(got.dw_down, want.dw_down), "");
  EXPECT_TRUE(same_bits(got.drow_weights, want.drow_weights));
  if (got.saves()) {
    EXPECT_EQ(bit_difference(got.u, want.u), "");
  }
}

/// y and dx as they are before a run, which writes their routed rows and, where the problem asks
/// for it, zeros into their tail.
class RowsBefore {
 public:
  explicit RowsBefore(const MlpRun& run) : y_(run.y.snapshot()), dx_(run.dx.snapshot()) {}
  void expect_no_other_written(const MlpRun& run) const {
    const std::int64_t routed = run.offs.back();
    const bool zero = run.problem.tail == Tail::zero;
    const auto written = [&](auto, auto row, auto) { return row < routed || zero; };
    EXPECT_EQ(run.y.stray_change(y_, written), "");
    EXPECT_EQ(run.dx.stray_change(dx_, written), "");
    for (std::int64_t row = routed; zero && row < run.problem.max_rows; ++row) {
      for (std::int64_t column = 0; column < run.problem.d; ++column) {
        ASSERT_EQ(run.y.bits(0, row, column), 0u) << row << " " << column;
        ASSERT_EQ(run.dx.bits(0, row, column), 0u) << row << " " << column;
      }
    }
  }

 private:
  std::vector<std::byte> y_, dx_;
};

/// `make(format, activations)` gives a filled run, each time with the same numbers.
template <class Make>
void expect_recompute_gives_the_bits_of_save(const Implementation& implementation,
                                             const Make& make) {
  for (const Format format : {Format::bf16, Format::f32}) {
    MlpRun save = make(format, Activations::save);
    MlpRun again = make(format, Activations::recompute);
    run_both(save, implementation);
    run_both(again, implementation);
    expect_same(again, save);
  }
}

// Below, `make(activations)` gives one.

/// dx in the memory of x: the weight gradients still see x.
template <class Make>
void expect_dx_in_the_memory_of_x(const Implementation& implementation, const Make& make) {
  for (const Activations activations : kBothActivations) {
    MlpRun apart = make(activations);
    run_both(apart, implementation);
    MlpRun alias = make(activations);
    alias.forward(implementation);
    ExpertMlpBackwardArgs args = alias.backward_args();
    args.dx = alias.x.view();
    alias.backward(implementation, args);
    std::swap(alias.x, alias.dx);
    expect_same(alias, apart);
  }
}

/// Frozen weights, or an input that needs no gradient: the others have the bits that they have
/// among all, and what is not wanted is not written.
template <class Make>
void expect_only_wanted_gradients(const Implementation& implementation, const Make& make) {
  constexpr HostTensor MlpRun::*kMatrices[] = {&MlpRun::dx, &MlpRun::dw_up_gate, &MlpRun::dw_down};
  for (const Activations activations : kBothActivations) {
    MlpRun all = make(activations);
    run_both(all, implementation);
    const unsigned gradients = all.problem.row_weights ? 4 : 3;
    for (unsigned wanted = 1; wanted < 1U << gradients; ++wanted) {
      const auto is_wanted = [&](unsigned gradient) { return (wanted >> gradient & 1U) != 0; };
      MlpRun run = make(activations);
      run.forward(implementation);
      ExpertMlpBackwardArgs args = run.backward_args();
      TensorView* views[] = {&args.dx, &args.dw_up_gate, &args.dw_down, &args.drow_weights};
      for (unsigned i = 0; i < 4; ++i) {
        if (!is_wanted(i)) {
          *views[i] = {};
        }
      }
      std::vector<std::vector<std::byte>> before;
      for (const auto matrix : kMatrices) {
        before.push_back((run.*matrix).snapshot());
      }
      const std::vector<float> drow_weights = run.drow_weights;
      run.backward(implementation, args);
      for (unsigned i = 0; i < 3; ++i) {
        const HostTensor& got = run.*kMatrices[i];
        EXPECT_EQ(is_wanted(i)
                      ? bit_difference(got, all.*kMatrices[i])
                      : got.stray_change(before[i], [](auto, auto, auto) { return false; }),
                  "")
            << "gradient " << i << " of " << wanted;
      }
      EXPECT_TRUE(same_bits(run.drow_weights, is_wanted(3) ? all.drow_weights : drow_weights))
          << wanted;
    }
  }
}

/// The intermediates apart from the workspace, in memory of any content and no more than is asked
/// for. What is left in the workspace keeps the fault.
template <class Make>
void expect_scratch_may_lie_apart(const Implementation& implementation, const Make& make) {
  for (const Activations activations : kBothActivations) {
    MlpRun within = make(activations);
    run_both(within, implementation);
    MlpRun apart = make(activations);
    const ExpertMlp mlp = apart.plan(implementation);
    const std::int64_t hidden = apart.problem.max_rows * apart.problem.h * size_bytes(DType::bf16);
    const auto run = [&](std::size_t workspace_bytes, std::size_t scratch_bytes, const auto& call) {
      ASSERT_GT(scratch_bytes, static_cast<std::size_t>(hidden)) << "H alone";
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
    expect_same(apart, within);
  }
}

/// `body(format, activations, counts)` for row counts that have broken kernels.
template <class Body>
void on_hostile_counts(const Body& body) {
  for (const Format format : {Format::bf16, Format::f32}) {
    for (const Activations activations : kBothActivations) {
      for (const Counts& counts :
           {Counts{7, 0, 33, 1}, Counts{0, 0, 0, 12}, Counts{50, 0}, Counts{1}, Counts{9, 1, 1}}) {
        SCOPED_TRACE(std::string(name(format)) + " " + std::string(name(activations)) + " " +
                     ::testing::PrintToString(counts));
        body(format, activations, counts);
      }
    }
  }
}

/// Every implementation that runs here, with every order of up and gate.
class MlpCase : public ::testing::TestWithParam<std::tuple<Implementation, UpGateOrder>> {
 public:
  static auto all() {
    return ::testing::Combine(::testing::ValuesIn(runnable()), ::testing::ValuesIn(kAllOrders));
  }
  static std::string name_of(const ::testing::TestParamInfo<ParamType>& instance) {
    const auto& [implementation, order] = instance.param;
    return test_name(implementation.name + "_" + std::string(name(order)));
  }

 protected:
  [[nodiscard]] static const Implementation& implementation() {
    return std::get<Implementation>(GetParam());
  }
  static ExpertMlpProblem problem_of(const Counts& counts, std::int64_t tail_rows, Format format,
                                     Activations activations) {
    ExpertMlpProblem problem =
        make_mlp(std::get<UpGateOrder>(GetParam()), format,
                 static_cast<std::int64_t>(counts.size()), total(counts) + tail_rows, 24, 40);
    problem.activations = activations;
    return problem;
  }
  static MlpRun filled(const ExpertMlpProblem& problem, const Counts& counts) {
    MlpRun run(problem, ends(counts), kScattered);
    run.fill(11);
    return run;
  }
};

}  // namespace moesaic::testing
