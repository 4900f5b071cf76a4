// SPDX-License-Identifier: Apache-2.0
// The kernels of rows with weights, against their definition in double on the host: the activation
// and its gradient, and y. Rows of nobody stay as they were, their weights are NaN.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cuda/launch/activation.hpp"
#include "device/case.hpp"
#include "device/matrix.hpp"
#include "math/activation.hpp"
#include "math/expert_segment.hpp"
#include "moesaic/dtype.hpp"

namespace moesaic::device_tests {
namespace {

namespace launch = backends::cuda::launch;

constexpr float kOld = 7.0F;  // what was there before

/// Floats on the device, [rows] or [rows, columns].
struct Floats {
  explicit Floats(const std::vector<float>& values)
      : count(values.size()), memory(static_cast<std::int64_t>(count * sizeof(float))) {
    check(cudaMemcpy(memory.bytes(), values.data(), count * sizeof(float), cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  [[nodiscard]] TensorView vector() const {
    return {memory.as<void>(), DType::f32, kDevice, 1, {static_cast<std::int64_t>(count), 0, 0},
            {1, 0, 0}};
  }
  [[nodiscard]] ConstTensorView matrix(std::int64_t columns) const {
    const std::int64_t rows = static_cast<std::int64_t>(count) / columns;
    return {memory.as<void>(), DType::f32, kDevice, 2, {rows, columns, 0}, {columns, 1, 0}};
  }
  [[nodiscard]] std::vector<float> read(const Queue& queue) const {
    std::vector<float> values(count);
    queue.wait();
    check(cudaMemcpy(values.data(), memory.bytes(), count * sizeof(float), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }
  std::size_t count;
  DeviceMemory memory;
};

/// Offsets on both sides, and which rows are of a valid segment.
struct Routing {
  Routing(std::vector<std::int32_t> end_rows, std::int64_t max_rows)
      : offs(std::move(end_rows)),
        memory(static_cast<std::int64_t>(offs.size() * 4)),
        routed(static_cast<std::size_t>(max_rows)) {
    check(cudaMemcpy(memory.bytes(), offs.data(), offs.size() * 4, cudaMemcpyHostToDevice),
          "cudaMemcpy");
    const auto experts = static_cast<std::int32_t>(offs.size());
    for (std::int32_t expert = 0; expert < experts; ++expert) {
      const math::RowRange rows = math::expert_rows(offs, expert, max_rows);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        routed[static_cast<std::size_t>(row)] = true;
      }
    }
    tail_begin = math::tail_begin(offs, experts, max_rows);
  }
  [[nodiscard]] ConstTensorView view() const {
    return {
        memory.as<void>(), DType::i32, kDevice, 1, {static_cast<std::int64_t>(offs.size()), 0, 0},
        {1, 0, 0}};
  }
  std::vector<std::int32_t> offs;
  DeviceMemory memory;
  std::vector<bool> routed;
  std::int64_t tail_begin = 0;
};

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> value(0, 2);
  std::vector<float> values(count);
  for (float& each : values) {
    each = value(random);
  }
  return values;
}
std::vector<BFloat16> narrow(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::vector<float> weights_of(const Routing& routing) {
  std::vector<float> weights = normal(routing.routed.size(), 5);
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (!routing.routed[row]) weights[row] = std::numeric_limits<float>::quiet_NaN();
  }
  return weights;
}
double wide(BFloat16 value) { return static_cast<float>(value); }

using Parameter = std::tuple<UpGateOrder, std::int64_t, Tail, std::vector<std::int32_t>>;

class RowWeights : public OnDevice, public ::testing::WithParamInterface<Parameter> {
 protected:
  static constexpr std::int64_t kRows = 45;
  [[nodiscard]] static int num_sms() { return device_here().info.num_sms; }
};

TEST_P(RowWeights, ActivationAndItsGradient) {
  const auto& [order, h, tail, offs] = GetParam();
  const Queue queue;
  const Routing routing(offs, kRows);
  const Matrix u(kRows, 2 * h), dh(kRows, h), du(kRows, 2 * h), again(kRows, h), only(kRows, h);
  const std::vector<BFloat16> u_host = narrow(normal(static_cast<std::size_t>(kRows * 2 * h), 1));
  const std::vector<BFloat16> dh_host = narrow(normal(static_cast<std::size_t>(kRows * h), 2));
  u.write(u_host);
  dh.write(dh_host);
  for (const Matrix* matrix : {&du, &again, &only}) matrix->unwritten(queue);
  const std::vector<float> weights = weights_of(routing);
  const Floats weights_there(weights);
  const Floats gradient(std::vector<float>(kRows, kOld));
  const Floats alone(std::vector<float>(kRows, kOld));
  const Stream stream = Stream::from_native(kDevice, queue.get());
  launch::swiglu(
      {u.view(), routing.view(), {}, only.view(), {}, order, num_sms(), weights_there.vector()},
      stream);
  launch::dswiglu({u.view(), routing.view(), dh.view(), again.view(), du.view(), order, num_sms(),
                   weights_there.vector(), gradient.vector(), tail},
                  stream);
  launch::dswiglu({u.view(),
                   routing.view(),
                   dh.view(),
                   {},
                   {},
                   order,
                   num_sms(),
                   weights_there.vector(),
                   alone.vector(),
                   tail},
                  stream);
  const std::vector<BFloat16> du_found = du.read(queue), h_found = again.read(queue);
  const std::vector<BFloat16> only_found = only.read(queue);
  const std::vector<float> found = gradient.read(queue), alone_found = alone.read(queue);

  const auto layout = order == UpGateOrder::up_gate   ? math::UpGateLayout::up_gate
                      : order == UpGateOrder::gate_up ? math::UpGateLayout::gate_up
                                                      : math::UpGateLayout::interleaved;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(found[at]),
              std::bit_cast<std::uint32_t>(alone_found[at]));
    if (!routing.routed[at]) {
      const bool zeroed = tail == Tail::zero && row >= routing.tail_begin;
      EXPECT_EQ(found[at], zeroed ? 0.0F : kOld) << row;
      continue;
    }
    double sum = 0, magnitude = 0;
    for (std::int64_t j = 0; j < h; ++j) {
      const auto up_at = static_cast<std::size_t>(row * 2 * h + math::up_column(layout, j, h));
      const auto gate_at = static_cast<std::size_t>(row * 2 * h + math::gate_column(layout, j, h));
      const auto h_at = static_cast<std::size_t>(row * h + j);
      const double up = wide(u_host[up_at]), gate = wide(u_host[gate_at]);
      const double value = math::swiglu(up, gate), slope = wide(dh_host[h_at]);
      const math::SwigluGrad<double> grad = math::dswiglu(up, gate, weights[at] * slope);
      ASSERT_NEAR(wide(du_found[up_at]), grad.dup, allowed(grad.dup)) << row << " " << j;
      ASSERT_NEAR(wide(du_found[gate_at]), grad.dgate, allowed(grad.dgate)) << row << " " << j;
      ASSERT_NEAR(wide(h_found[h_at]), weights[at] * value, allowed(weights[at] * value));
      ASSERT_EQ(h_found[h_at].bits, only_found[h_at].bits);
      sum += slope * value;
      magnitude += std::abs(slope * value);
    }
    ASSERT_NEAR(found[at], sum, 80.0 / 16'777'216.0 * magnitude) << row;
  }
}

TEST_P(RowWeights, ScaleTheResult) {
  const auto& [order, d, tail, offs] = GetParam();
  if (order != UpGateOrder::up_gate) return;  // there are no parts here
  const Queue queue;
  const Routing routing(offs, kRows);
  const std::vector<float> sums = normal(static_cast<std::size_t>(kRows * d), 3);
  const std::vector<float> weights = weights_of(routing);
  const Floats sums_there(sums), weights_there(weights);
  constexpr std::int64_t kGap = 24;
  const Matrix y(kRows, d, kGap);
  y.write(std::vector<BFloat16>(static_cast<std::size_t>(y.elements()), BFloat16(kOld)));
  launch::scale_rows(
      {sums_there.matrix(d), weights_there.vector(), routing.view(), y.view(), tail, num_sms()},
      Stream::from_native(kDevice, queue.get()));
  const std::vector<BFloat16> found = y.read(queue);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    const bool zeroed = tail == Tail::zero && row >= routing.tail_begin;
    for (std::int64_t column = 0; column < d + kGap; ++column) {
      const BFloat16 got = found[static_cast<std::size_t>(row * y.stride + column)];
      if (column >= d || !routing.routed[at]) {
        ASSERT_EQ(wide(got), column < d && zeroed ? 0.0 : kOld) << row << " " << column;
        continue;
      }
      const BFloat16 want(weights[at] * sums[static_cast<std::size_t>(row * d + column)]);
      ASSERT_EQ(got.bits, want.bits) << row << " " << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , RowWeights,
    ::testing::Combine(
        ::testing::Values(UpGateOrder::up_gate, UpGateOrder::gate_up, UpGateOrder::interleaved),
        // Less than a warp's columns, as many, and several times as many with a rest.
        ::testing::Values<std::int64_t>(8, 256, 2 * 256 + 72),
        ::testing::Values(Tail::leave, Tail::zero),
        ::testing::Values(std::vector<std::int32_t>{40}, std::vector<std::int32_t>{0, 0, 0},
                          std::vector<std::int32_t>{7, 7, 40, 45},
                          std::vector<std::int32_t>{10, 8, 100},  // a gap, and no tail
                          std::vector<std::int32_t>{10, 90, 20, 30, 35})));

}  // namespace
}  // namespace moesaic::device_tests
