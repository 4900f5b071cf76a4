// SPDX-License-Identifier: Apache-2.0
// The expert's kernels in pairs of CTAs: row counts around what one CTA of a pair has and what both
// have, last rounds of few pairs, and whole experts, forward and backward, whose every bit is that
// of single CTAs.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "device/fused_case.hpp"
#include "device/row_counts.hpp"

namespace moesaic::device_tests {
namespace {

ExpertCase make(const std::vector<std::int32_t>& counts, std::int64_t d, std::int64_t h) {
  ExpertCase c;
  c.offs = ends(counts);
  c.rows = c.offs.back() + 37;
  c.d = d;
  c.h = h;
  return c;
}

class PairExpert : public OnDevice {};

// One expert of each number of rows: none, few, one CTA's and both's, up to a second tile of few.
TEST_F(PairExpert, EveryRowCountUpToFourMoreThanATile) {
  std::vector<std::int32_t> counts = one_to(260);
  counts.insert(counts.begin() + 130, {0, 0});
  ExpertCase c = make(counts, 328, 136);
  for (const int num_sms : {0, 2, 7}) {
    c.num_sms = num_sms;
    SCOPED_TRACE(std::to_string(num_sms) + " SMs");
    expect_same_bits(c);
  }
}

// An expert by itself, so that its tiles are the last round, which is halved: a half may have rows
// for the first CTA alone, or columns of neither.
TEST_F(PairExpert, OneExpertInTheLastRound) {
  for (const std::int32_t rows : {1,   63,  64,  65,  127, 128, 129, 191, 192, 193, 255,
                                  256, 257, 260, 319, 320, 321, 384, 385, 511, 513, 640}) {
    for (const std::int64_t h : {8, 72, 200, 264, 520}) {
      ExpertCase c = make({rows}, 320, h);
      for (const int num_sms : {0, 4}) {
        c.num_sms = num_sms;
        SCOPED_TRACE(std::to_string(rows) + " rows, h = " + std::to_string(h));
        expect_same_bits(c);
      }
    }
  }
}

class PairExpertCounts : public OnDevice, public ::testing::WithParamInterface<Counts> {};

TEST_P(PairExpertCounts, HaveTheBitsOfProductAndActivation) {
  for (const auto& [d, h] : {std::pair{72, 200}, {264, 72}}) {
    expect_same_bits(make(GetParam().counts, d, h));
  }
}
INSTANTIATE_TEST_SUITE_P(Hostile, PairExpertCounts, ::testing::ValuesIn(hostile_counts()),
                         [](const auto& parameter) { return parameter.param.name; });

/// What forward and backward of a whole expert write.
struct Results {
  Results(const ExpertCase& c, const Queue& queue)
      : y(c.rows, c.d),
        u(c.rows, 2 * c.h),
        dx(c.rows, c.d),
        dw_up_gate(c.experts() * 2 * c.h, c.d),
        dw_down(c.experts() * c.d, c.h) {
    for (const Matrix* matrix : {&y, &u, &dx, &dw_up_gate, &dw_down}) matrix->unwritten(queue);
  }
  Matrix y, u, dx, dw_up_gate, dw_down;
};

void run(const Expert& expert, const ExpertMlp& plan, const Results& to) {
  const int experts = plan.problem().num_experts;
  const auto bytes = static_cast<std::int64_t>(
      std::max(plan.forward_workspace_bytes(), plan.backward_workspace_bytes()));
  const DeviceMemory memory(bytes);
  check(cudaMemset(memory.bytes(), 0, static_cast<std::size_t>(bytes)), "cudaMemset");
  const Workspace workspace{{memory.bytes(), static_cast<std::size_t>(bytes)}, kDevice};
  const bool saves = plan.problem().activations == Activations::save;
  ExpertMlpForwardArgs forward;
  forward.x = expert.x.view();
  forward.w_up_gate = expert.w_up_gate.weights(experts);
  forward.w_down = expert.w_down.weights(experts);
  forward.offs = expert.offs();
  forward.y = to.y.view();
  if (saves) forward.u = to.u.view();
  plan.forward(forward, workspace, expert.stream());
  ExpertMlpBackwardArgs backward;
  backward.dy = expert.dy.view();
  backward.x = forward.x;
  backward.w_up_gate = forward.w_up_gate;
  backward.w_down = forward.w_down;
  backward.offs = forward.offs;
  backward.u = forward.u;
  backward.dx = to.dx.view();
  backward.dw_up_gate = to.dw_up_gate.weights(experts);
  backward.dw_down = to.dw_down.weights(experts);
  plan.backward(backward, workspace, expert.stream());
  expert.queue.wait();
}

void expect_zero_tail(const ExpertCase& c, const Expert& expert, const Matrix& matrix) {
  const std::vector<BFloat16> values = matrix.read(expert.queue);
  const auto tail = values.begin() + c.routed() * matrix.stride;
  EXPECT_TRUE(std::all_of(tail, values.end(), [](BFloat16 value) { return value.bits == 0; }));
}

/// Plans of both names.
void expect_same_steps(const ExpertCase& c, Activations activations, Tail tail) {
  const Expert expert(c);
  ExpertMlpProblem mlp = expert.problem();
  mlp.activations = activations;
  mlp.tail = tail;
  const Results want(c, expert.queue), found(c, expert.queue);
  for (const auto& [name, results] : {std::pair{kSingleExpert, &want}, {kPairExpert, &found}}) {
    PlanOptions options;
    options.num_sms = c.num_sms;
    options.implementation = name;
    const ExpertMlp plan = ExpertMlp::plan(mlp, device_here().info, options);
    EXPECT_EQ(plan.implementation(), name);
    run(expert, plan, *results);
  }
  expert.expect_equal(want.y, found.y, "y");
  expert.expect_equal(want.u, found.u, "u");
  expert.expect_equal(want.dx, found.dx, "dx");
  expert.expect_equal(want.dw_up_gate, found.dw_up_gate, "dw_up_gate");
  expert.expect_equal(want.dw_down, found.dw_down, "dw_down");
  if (tail == Tail::zero) {
    expect_zero_tail(c, expert, found.y);
    expect_zero_tail(c, expert, found.dx);
  }
}

using Whole = std::tuple<UpGateOrder, Activations, Tail>;
class PairExpertWhole : public OnDevice, public ::testing::WithParamInterface<Whole> {};

TEST_P(PairExpertWhole, HasTheBitsOfSingleCtas) {
  const auto& [order, activations, tail] = GetParam();
  for (const auto& [d, h] : {std::pair{200, 8}, {520, 456}, {1024, 704}}) {
    ExpertCase c = make({65, 127, 0, 129, 20, 193, 300, 16, 257, 2000, 1}, d, h);
    c.order = order;
    SCOPED_TRACE("d = " + std::to_string(d) + ", h = " + std::to_string(h));
    expect_same_steps(c, activations, tail);
  }
}
INSTANTIATE_TEST_SUITE_P(
    , PairExpertWhole,
    ::testing::Combine(::testing::Values(UpGateOrder::up_gate, UpGateOrder::gate_up,
                                         UpGateOrder::interleaved),
                       ::testing::Values(Activations::save, Activations::recompute),
                       ::testing::Values(Tail::leave, Tail::zero)));

// Unnamed, experts of many rows are in pairs, and those of few are not; both have the same bits.
TEST_F(PairExpert, TheChosenKernelsHaveTheSameBits) {
  const ExpertCase c = make({1500, 700, 1100, 60}, 264, 200);
  const Expert expert(c);
  for (const int experts : {4, 1}) {  // of the same buffer
    ExpertMlpProblem mlp = expert.problem();
    mlp.num_experts = experts;
    const ExpertMlp plan = ExpertMlp::plan(mlp, device_here().info);
    EXPECT_EQ(plan.implementation(), experts == 4 ? kSingleExpert : kPairExpert);
  }
  ExpertCase many = make({3500, 2100, 0, 2700}, 264, 200);
  const Expert of_many(many);
  const Results want(many, of_many.queue), found(many, of_many.queue);
  PlanOptions single;
  single.implementation = kSingleExpert;
  run(of_many, ExpertMlp::plan(of_many.problem(), device_here().info, single), want);
  const ExpertMlp chosen = ExpertMlp::plan(of_many.problem(), device_here().info);
  EXPECT_EQ(chosen.implementation(), kPairExpert);
  run(of_many, chosen, found);
  of_many.expect_equal(want.y, found.y, "y");
  of_many.expect_equal(want.dx, found.dx, "dx");
}

// For the tools of compute-sanitizer: few tiles of every kind, halves among them.
class SmallPairExpert : public OnDevice {};

TEST_F(SmallPairExpert, HasTheBitsOfSingleCtas) {
  for (const int num_sms : {2, 4}) {
    ExpertCase c = make({5, 66, 0, 130, 300, 64, 200}, 328, 136);
    c.num_sms = num_sms;
    for (const Activations activations : {Activations::save, Activations::recompute}) {
      expect_same_steps(c, activations, Tail::zero);
    }
  }
}

}  // namespace
}  // namespace moesaic::device_tests
