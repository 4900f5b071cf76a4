// SPDX-License-Identifier: Apache-2.0
// The down product with weights of rows in its epilogue, against the product in FP32 and the
// weights apart: bit for bit, tail and gaps included.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "device/gather_case.hpp"

namespace moesaic::device_tests {
namespace {

/// y by both ways; rows are those of GatherCase, x takes no part.
struct WeightedDown {
  WeightedDown(const GatherCase& c, Tail tail)
      : run(c),
        experts(c.experts()),
        h(c.rows, c.h),
        w_down(experts * c.d, c.h),
        y(c.rows, c.d, kGap),
        found(c.rows, c.d, kGap),
        sums(c.rows * c.d * 4) {
    h.unwritten(run.queue);
    fill_normal(h.memory.bytes(), c.routed() * h.stride, 7, 1.0F, run.queue.get());
    fill_normal(w_down.memory.bytes(), w_down.elements(), 8, 0.1F, run.queue.get());
    for (const Matrix* matrix : {&y, &found}) matrix->unwritten(run.queue);
    fill_unwritten(sums.bytes(), c.rows * c.d * 4, run.queue.get());
    problem = run.problem(XRows::in_order);
    problem.row_weights = true;
    problem.tail = tail;
  }
  void apart() const {
    const TensorView wide{
        sums.as<void>(),  DType::f32, kDevice, 2, {problem.max_rows, problem.d, 0},
        {problem.d, 1, 0}};
    run.product({.n = problem.d, .k = problem.h}, h.view(), w_down.weights(experts), wide);
    cuda::launch::scale_rows(
        {wide, run.row_weights(), run.offs(), y.view(), problem.tail, device_here().info.num_sms},
        run.stream());
  }
  void fused(const Matrix& to) const {
    run.fused(problem)->weighted_down(
        {h.view(), w_down.weights(experts), run.offs(), run.row_weights(), to.view()},
        run.workspace(), run.stream());
  }
  void expect_same() const {
    apart();
    fused(found);
    run.expect_equal(y, found, "y");
  }

  static constexpr std::int64_t kGap = 24;
  GatherRun run;
  std::int64_t experts;
  Matrix h, w_down, y, found;
  DeviceMemory sums;
  ExpertMlpProblem problem{};
};

using Parameter = std::tuple<Tail, std::int64_t, std::vector<std::int32_t>>;

class WeightsInTheEpilogue : public OnDevice, public ::testing::WithParamInterface<Parameter> {};

TEST_P(WeightsInTheEpilogue, HaveTheBitsOfWeightsApart) {
  const auto& [tail, d, counts] = GetParam();
  for (const std::int64_t h : {8, 64, 200, 1024}) {
    SCOPED_TRACE("h = " + std::to_string(h));
    WeightedDown(make_case(counts, d, h), tail).expect_same();
  }
}

INSTANTIATE_TEST_SUITE_P(
    , WeightsInTheEpilogue,
    ::testing::Combine(
        ::testing::Values(Tail::leave, Tail::zero),
        ::testing::Values<std::int64_t>(8, 200, 512, 1408),
        ::testing::Values(std::vector<std::int32_t>{0, 0, 0, 0}, std::vector<std::int32_t>{1, 0, 3},
                          std::vector<std::int32_t>{5, 17, 64, 33},
                          std::vector<std::int32_t>{65, 127, 128, 129, 0, 193, 300, 16},
                          std::vector<std::int32_t>{3, 1, 2000, 2, 0, 1, 3, 38})));

class SmallWeightedDown : public OnDevice {};

TEST_F(SmallWeightedDown, OneSmHasAllTilesInARow) {
  for (const std::int64_t h : {64, 192, 320}) {
    GatherCase c = make_case({300, 20, 129, 0, 256, 1}, 328, h);
    c.num_sms = 1;
    WeightedDown(c, Tail::zero).expect_same();
  }
}

// Segments that overlap, ends past the buffer: no weight behind it is read.
TEST_F(SmallWeightedDown, WrongOffsetsAreContained) {
  GatherCase c;
  c.rows = 400;
  c.tokens = 5;
  c.d = 136;
  c.h = 72;
  c.offs = {100, 50, 300, 100'000, 300};
  const WeightedDown down(c, Tail::leave);
  down.apart();
  down.fused(down.found);
  const std::vector<BFloat16> a = down.y.read(down.run.queue), b = down.found.read(down.run.queue);
  for (const auto& [begin, end] : {std::pair{0, 50}, {100, 300}}) {  // of one expert each
    EXPECT_TRUE(std::equal(a.begin() + begin * down.y.stride, a.begin() + end * down.y.stride,
                           b.begin() + begin * down.y.stride))
        << "rows from " << begin;
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

class WeightedDownOverTime : public OnDevice {};

TEST_F(WeightedDownOverTime, BitsRepeat) {
  const WeightedDown down(make_case({33, 500, 0, 7, 128, 64, 900, 1, 2, 3}, 512, 456), Tail::leave);
  down.fused(down.y);
  for (int repeat = 0; repeat < 200 && !HasFailure(); ++repeat) {
    down.fused(down.found);
    down.run.expect_equal(down.y, down.found, "y");
  }
}

}  // namespace
}  // namespace moesaic::device_tests
