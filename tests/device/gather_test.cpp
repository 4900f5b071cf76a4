// SPDX-License-Identifier: Apache-2.0
// The kernels that take rows of x where they lie, against those that read rows in order, on a copy
// of the same rows: bit for bit, in the product of up and gate and in its weight gradient.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/gather_case.hpp"

namespace moesaic::device_tests {
namespace {

/// U and H, and H alone, of rows where they lie and of rows in order.
void expect_same_up_gate(const GatherRun& run, const GatherCase& c) {
  const ConstTensorView w = run.w_up_gate.weights(c.experts());
  const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h), u_found(c.rows, 2 * c.h), h_found(c.rows, c.h);
  for (const Matrix* matrix : {&u, &h, &u_found, &h_found}) matrix->unwritten(run.queue);
  run.copy_rows();
  run.fused(run.problem(XRows::in_order))
      ->up_gate({run.copied.view(), w, run.offs(), u.view(), h.view(), {}}, run.workspace(),
                run.stream());
  const auto gathering = run.fused(run.problem(XRows::indexed));
  run.up_gate(*gathering, u_found.view(), h_found);
  run.expect_equal(u, u_found, "U");
  run.expect_equal(h, h_found, "H");
  h_found.unwritten(run.queue);
  run.up_gate(*gathering, {}, h_found);
  run.expect_equal(h, h_found, "H without U");
}

/// dW in both types, over what was there and added to it.
void expect_same_gradient(const GatherRun& run) {
  run.copy_rows();
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const bool accumulate : {false, true}) {
      const WeightGradient want = run.gradient(dtype), found = run.gradient(dtype);
      for (const WeightGradient* dw : {&want, &found}) {
        if (accumulate) {
          fill_value(dw->memory.bytes(), dtype, dw->elements(), -0.75F, run.queue.get());
        } else {
          fill_unwritten(dw->memory.bytes(), dw->bytes(), run.queue.get());
        }
      }
      run.copied_wgrad(want, accumulate);
      run.up_gate_wgrad(*run.fused(run.problem(XRows::indexed, dtype, accumulate)), found);
      SCOPED_TRACE(std::string(name(dtype)) + (accumulate ? ", added" : ""));
      run.expect_equal(want.memory, found.memory, want.bytes(), "dW");
    }
  }
}

void expect_same_bits(const GatherCase& c) {
  const GatherRun run(c);
  expect_same_up_gate(run, c);
  expect_same_gradient(run);
}

using Parameter = std::tuple<UpGateOrder, std::int64_t, std::vector<std::int32_t>>;

class GatheredRows : public OnDevice, public ::testing::WithParamInterface<Parameter> {};

TEST_P(GatheredRows, HaveTheBitsOfCopiedRows) {
  const auto& [order, h, counts] = GetParam();
  for (const std::int64_t d : {8, 64, 200, 512, 1024}) {
    GatherCase c = make_case(counts, d, h);
    c.order = order;
    SCOPED_TRACE("d = " + std::to_string(d));
    expect_same_bits(c);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , GatheredRows,
    ::testing::Combine(
        ::testing::Values(UpGateOrder::up_gate, UpGateOrder::gate_up, UpGateOrder::interleaved),
        ::testing::Values<std::int64_t>(8, 72, 200, 456),
        ::testing::Values(std::vector<std::int32_t>{0, 0, 0, 0}, std::vector<std::int32_t>{1, 0, 3},
                          std::vector<std::int32_t>{5, 17, 64, 33},
                          std::vector<std::int32_t>{65, 127, 128, 129, 0, 193, 300, 16},
                          std::vector<std::int32_t>{3, 1, 2000, 2, 0, 1, 3, 38})));

class SmallGather : public OnDevice {};

// One CTA has all tiles, one after the other: long and short, whole, halved and of few rows.
TEST_F(SmallGather, OneSmHasAllTilesInARow) {
  for (const std::int64_t d : {64, 192, 320}) {
    GatherCase c = make_case({300, 20, 129, 0, 256, 1}, d, 200);
    c.num_sms = 1;
    SCOPED_TRACE("d = " + std::to_string(d));
    expect_same_bits(c);
  }
}

// The widest grid that the walk looks through at once, and one that needs its table.
TEST_F(SmallGather, ManyExperts) {
  for (const int experts : {128, 300}) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(experts));
    for (std::size_t e = 0; e < counts.size(); ++e) counts[e] = static_cast<std::int32_t>(e % 4);
    counts[7] = 150;
    expect_same_bits(make_case(counts, 72, 8));
  }
}

// A stride of its own, and rows that touch each other.
TEST_F(SmallGather, RowsOfXMayBeApart) {
  for (const std::int64_t gap : {0, 8, 1000}) {
    GatherCase c = make_case({70, 0, 130}, 136, 72);
    c.x_gap = gap;
    expect_same_bits(c);
  }
}

TEST_F(SmallGather, TheCopyIsWhatTheIndexSays) {
  const GatherCase c = make_case({5, 0, 40, 64}, 200, 8);
  const std::vector<std::int32_t> indices = some_indices(c);
  const GatherRun run(c, indices);
  const std::vector<BFloat16> before = run.copied.read(run.queue);
  run.copy_rows();
  const std::vector<BFloat16> x = run.x.read(run.queue), found = run.copied.read(run.queue);
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int32_t from = indices[static_cast<std::size_t>(row)];
    for (std::int64_t column = 0; column < c.d; ++column) {
      const auto at = static_cast<std::size_t>(row * c.d + column);
      BFloat16 want{};
      if (row >= c.offs.back()) {
        want = before[at];
      } else if (0 <= from && from < c.tokens) {
        want = x[static_cast<std::size_t>(from * run.x.stride + column)];
      }
      ASSERT_EQ(found[at].bits, want.bits) << row << " " << column;
    }
  }
}

// Every index is outside, or there are no rows to be inside of: rows of zeros.
TEST_F(SmallGather, IndicesOutsideAreRowsOfZeros) {
  const GatherCase c = make_case({5, 130, 64}, 136, 72);
  const ConstTensorView none{nullptr, DType::bf16, kDevice, 2, {0, c.d, 0}, {c.d, 1, 0}};
  const std::vector<std::int32_t> wild(static_cast<std::size_t>(c.rows), -1);
  const GatherRun outside(c, wild), empty(c);
  for (const bool without : {false, true}) {
    const GatherRun& run = without ? empty : outside;
    const ConstTensorView x = without ? none : run.x.view();
    const Matrix u(c.rows, 2 * c.h), h(c.rows, c.h);
    for (const Matrix* matrix : {&u, &h}) matrix->unwritten(run.queue);
    const WeightGradient dw = run.gradient(DType::f32);
    fill_unwritten(dw.memory.bytes(), dw.bytes(), run.queue.get());
    const auto gathering = run.fused(run.problem(XRows::indexed, DType::f32));
    gathering->up_gate({x, run.w_up_gate.weights(3), run.offs(), u.view(), h.view(), run.x_rows()},
                       run.workspace(), run.stream());
    gathering->up_gate_wgrad({run.du.view(), x, run.x_rows(), run.offs(), dw.view()},
                             run.workspace(), run.stream());
    const std::vector<BFloat16> h_found = h.read(run.queue);
    const auto routed = h_found.begin() + c.offs.back() * h.stride;
    EXPECT_TRUE(std::all_of(h_found.begin(), routed,
                            [](BFloat16 value) { return static_cast<float>(value) == 0; }));
    std::vector<float> dw_found(static_cast<std::size_t>(dw.elements()));
    run.queue.wait();
    check(cudaMemcpy(dw_found.data(), dw.memory.bytes(), static_cast<std::size_t>(dw.bytes()),
                     cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    EXPECT_TRUE(
        std::all_of(dw_found.begin(), dw_found.end(), [](float value) { return value == 0; }));
  }
}

// An expert whose rows are NaN spoils its own results and no other's.
TEST_F(SmallGather, NanStaysWithItsExpert) {
  const GatherCase c = make_case({70, 40, 130}, 136, 72);
  std::vector<std::int32_t> indices = some_indices(c);
  std::fill(indices.begin() + 70, indices.begin() + 110, static_cast<std::int32_t>(c.tokens - 1));
  const GatherRun run(c, indices);
  expect_same_up_gate(run, c);
  const WeightGradient dw = run.gradient(DType::bf16);
  fill_unwritten(dw.memory.bytes(), dw.bytes(), run.queue.get());
  run.up_gate_wgrad(*run.fused(run.problem(XRows::indexed)), dw);
  std::vector<BFloat16> found(static_cast<std::size_t>(dw.elements()));
  run.queue.wait();
  check(cudaMemcpy(found.data(), dw.memory.bytes(), static_cast<std::size_t>(dw.bytes()),
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool middle = i / (found.size() / 3) == 1;
    ASSERT_EQ(std::isnan(static_cast<float>(found[i])), middle) << "element " << i;
  }
}

// Segments that overlap and ends past the buffer: no index behind it is read, and rows of one
// expert are what they are in order.
TEST_F(SmallGather, WrongOffsetsAreContained) {
  GatherCase c;
  c.rows = 400;
  c.tokens = 100;
  c.d = 136;
  c.h = 72;
  c.offs = {100, 50, 300, 100'000, -7};
  std::vector<std::int32_t> indices(400);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    indices[row] = static_cast<std::int32_t>(row * 7 % 99);
  }
  const GatherRun run(c, indices);
  const Matrix h(c.rows, c.h), found(c.rows, c.h);
  for (const Matrix* matrix : {&h, &found}) matrix->unwritten(run.queue);
  run.copy_rows();
  run.fused(run.problem(XRows::in_order))
      ->up_gate({run.copied.view(), run.w_up_gate.weights(5), run.offs(), {}, h.view(), {}},
                run.workspace(), run.stream());
  const auto gathering = run.fused(run.problem(XRows::indexed));
  run.up_gate(*gathering, {}, found);
  const std::vector<BFloat16> a = h.read(run.queue), b = found.read(run.queue);
  for (const auto& [begin, end] : {std::pair{0, 50}, {100, 300}}) {  // of one expert each
    EXPECT_TRUE(std::equal(a.begin() + begin * h.stride, a.begin() + end * h.stride,
                           b.begin() + begin * h.stride))
        << "rows from " << begin;
  }
  const WeightGradient dw = run.gradient(DType::bf16);
  fill_unwritten(dw.memory.bytes(), dw.bytes(), run.queue.get());
  run.up_gate_wgrad(*gathering, dw);
  run.queue.wait();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const DeviceFault fault = read_fault(run.workspace(), run.stream());
  EXPECT_EQ(fault.expert, 1);
  EXPECT_EQ(fault.value, 50);
}

}  // namespace
}  // namespace moesaic::device_tests
