// SPDX-License-Identifier: Apache-2.0
// Rows of x that lie anywhere, over time: launches that repeat, indices that the kernel before
// writes or that change between replays of a graph; and in a whole expert, forward and backward.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "device/gather_case.hpp"

namespace moesaic::device_tests {
namespace {

class Gather : public OnDevice {};

TEST_F(Gather, BitsRepeat) {
  const GatherCase c = make_case({33, 500, 0, 7, 128, 64, 900, 1, 2, 3}, 512, 456);
  const GatherRun run(c);
  const auto gathering = run.fused(run.problem(XRows::indexed));
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), u2(c.rows, 2 * c.h), h2(c.rows, c.h);
  for (const Matrix* matrix : {&u, &h, &u2, &h2}) matrix->unwritten(run.queue);
  const WeightGradient dw = run.gradient(DType::bf16), dw2 = run.gradient(DType::bf16);
  const auto once = [&](const Matrix& u_out, const Matrix& h_out, const WeightGradient& dw_out) {
    run.up_gate(*gathering, u_out.view(), h_out);
    run.up_gate_wgrad(*gathering, dw_out);
  };
  once(u, h, dw);
  for (int repeat = 0; repeat < 200 && !HasFailure(); ++repeat) {
    once(u2, h2, dw2);
    run.expect_equal(u, u2, "U");
    run.expect_equal(h, h2, "H");
    run.expect_equal(dw.memory, dw2.memory, dw.bytes(), "dW");
  }
}

// The kernel starts while the one that writes the indices still runs: it must wait for them.
TEST_F(Gather, IndicesOfTheKernelBefore) {
  const GatherCase c = make_case({33, 500, 0, 7, 128}, 512, 72);
  const std::vector<std::int32_t> right = some_indices(c);
  const GatherRun run(c, right);
  DeviceMemory source(c.rows * 4);
  check(cudaMemcpy(source.bytes(), right.data(), right.size() * 4, cudaMemcpyHostToDevice),
        "cudaMemcpy");
  const Matrix h(c.rows, c.h), found(c.rows, c.h);
  for (const Matrix* matrix : {&h, &found}) matrix->unwritten(run.queue);
  const auto gathering = run.fused(run.problem(XRows::indexed));
  run.up_gate(*gathering, {}, h);
  run.queue.wait();
  run.write(std::vector<std::int32_t>(right.size(), 0));
  write_offsets_late(run.indices(), source.as<std::int32_t>(), static_cast<int>(c.rows), 1'000'000,
                     run.queue.get());
  run.up_gate(*gathering, {}, found);
  run.expect_equal(h, found, "H");
}

/// Forward and backward of a whole expert, with rows of x as `x_rows` says.
struct Step {
  Step(const GatherRun& run, const GatherCase& c, const ExpertMlpProblem& mlp)
      : y(c.rows, c.d),
        u(c.rows, 2 * c.h),
        dx(c.rows, c.d),
        dw_up_gate(run.gradient(DType::bf16)),
        dw_down(c.experts() * c.d, c.h),
        drow_weights(c.rows * 4),
        plan(ExpertMlp::plan(mlp, device_here().info)) {
    for (const Matrix* matrix : {&y, &u, &dx, &dw_down}) matrix->unwritten(run.queue);
    fill_unwritten(dw_up_gate.memory.bytes(), dw_up_gate.bytes(), run.queue.get());
    fill_unwritten(drow_weights.bytes(), c.rows * 4, run.queue.get());
  }
  void enqueue(const GatherRun& run, const ConstTensorView& w_down, const Matrix& dy,
               const DeviceMemory& memory, std::int64_t bytes) const {
    const ExpertMlpProblem& mlp = plan.problem();
    const bool gathers = mlp.x_rows != XRows::in_order;
    const Workspace workspace{{memory.bytes(), static_cast<std::size_t>(bytes)}, kDevice};
    ExpertMlpForwardArgs forward;
    forward.x = gathers ? run.x.view() : run.copied.view();
    forward.w_up_gate = run.w_up_gate.weights(mlp.num_experts);
    forward.w_down = w_down;
    forward.offs = run.offs();
    forward.y = y.view();
    if (mlp.activations == Activations::save) forward.u = u.view();
    if (gathers) forward.x_rows = run.x_rows();
    if (mlp.row_weights) forward.row_weights = run.row_weights();
    plan.forward(forward, workspace, run.stream());
    ExpertMlpBackwardArgs backward;
    backward.dy = dy.view();
    backward.x = forward.x;
    backward.w_up_gate = forward.w_up_gate;
    backward.w_down = w_down;
    backward.offs = forward.offs;
    backward.u = forward.u;
    backward.dx = dx.view();
    backward.dw_up_gate = dw_up_gate.view();
    backward.dw_down = dw_down.weights(mlp.num_experts);
    backward.x_rows = forward.x_rows;
    backward.row_weights = forward.row_weights;
    if (mlp.row_weights) {
      backward.drow_weights = run.row_weights();
      backward.drow_weights.data = drow_weights.as<void>();
    }
    plan.backward(backward, workspace, run.stream());
  }
  Matrix y, u, dx;
  WeightGradient dw_up_gate;
  Matrix dw_down;
  DeviceMemory drow_weights;
  ExpertMlp plan;
};

/// Rows in order, read where they lie and copied.
void expect_same_steps(const GatherRun& run, const GatherCase& c, const ConstTensorView& w_down,
                       const Matrix& dy, Activations activations, bool weighted) {
  std::vector<std::unique_ptr<Step>> steps;
  for (const XRows x_rows : {XRows::in_order, XRows::indexed, XRows::copied}) {
    ExpertMlpProblem mlp = run.problem(x_rows);
    mlp.activations = activations;
    mlp.row_weights = weighted;
    steps.push_back(std::make_unique<Step>(run, c, mlp));
    const ExpertMlp& plan = steps.back()->plan;
    EXPECT_EQ(plan.copies_x(), x_rows == XRows::copied);
    const bool gathers = plan.implementation().find("_gather") != std::string::npos;
    EXPECT_EQ(gathers, x_rows == XRows::indexed) << plan.implementation();
    const auto bytes = static_cast<std::int64_t>(
        std::max(plan.forward_workspace_bytes(), plan.backward_workspace_bytes()));
    const DeviceMemory memory(bytes);
    check(cudaMemset(memory.bytes(), 0, static_cast<std::size_t>(bytes)), "cudaMemset");
    steps.back()->enqueue(run, w_down, dy, memory, bytes);
    run.queue.wait();
  }
  const Step& want = *steps[0];
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const Step& found = *steps[i];
    run.expect_equal(want.y, found.y, "y");
    run.expect_equal(want.dx, found.dx, "dx");
    run.expect_equal(want.dw_up_gate.memory, found.dw_up_gate.memory, want.dw_up_gate.bytes(),
                     "dw_up_gate");
    run.expect_equal(want.dw_down, found.dw_down, "dw_down");
    run.expect_equal(want.drow_weights, found.drow_weights, c.rows * 4, "drow_weights");
  }
  EXPECT_LT(steps[1]->plan.forward_scratch_bytes(), steps[2]->plan.forward_scratch_bytes());
  EXPECT_LT(steps[1]->plan.backward_scratch_bytes(), steps[2]->plan.backward_scratch_bytes());
}

TEST_F(Gather, AWholeExpertHasTheBitsOfRowsInOrder) {
  const GatherCase c = make_case({65, 127, 0, 129, 20, 193, 300, 16}, 512, 456);
  const GatherRun run(c);
  const Matrix w_down(8 * c.d, c.h), dy(c.rows, c.d);
  fill_normal(w_down.memory.bytes(), w_down.elements(), 5, 0.1F, run.queue.get());
  dy.unwritten(run.queue);
  fill_normal(dy.memory.bytes(), c.offs.back() * dy.stride, 6, 1.0F, run.queue.get());
  run.copy_rows();
  for (const Activations activations : {Activations::save, Activations::recompute}) {
    for (const bool weighted : {false, true}) {
      SCOPED_TRACE(std::string(name(activations)) + (weighted ? ", weighted" : ""));
      expect_same_steps(run, c, w_down.weights(8), dy, activations, weighted);
    }
  }
}

TEST_F(Gather, AReplayedGraphReadsTheIndicesOfToday) {
  const GatherCase c = make_case({33, 500, 0, 7, 128}, 512, 72);
  const GatherRun run(c, std::vector<std::int32_t>(static_cast<std::size_t>(c.rows), 1));
  const Matrix h(c.rows, c.h), found(c.rows, c.h);
  for (const Matrix* matrix : {&h, &found}) matrix->unwritten(run.queue);
  const auto gathering = run.fused(run.problem(XRows::indexed));
  const Graph graph(run.queue, [&] { run.up_gate(*gathering, {}, found); });
  EXPECT_EQ(graph.num_nodes(), 1U);
  graph.replay(run.queue);
  run.queue.wait();
  run.write(some_indices(c));
  graph.replay(run.queue);
  run.up_gate(*gathering, {}, h);
  run.expect_equal(h, found, "H");
}

}  // namespace
}  // namespace moesaic::device_tests
