// SPDX-License-Identifier: Apache-2.0
// Building views and describing them.
#include "moesaic/tensor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "support/expect_error.hpp"

namespace moesaic {
namespace {

using testing::expect_error;

TEST(View, PackedRowMajor) {
  std::vector<float> data(24);
  const TensorView dense = view(std::span<float>(data), {2, 3, 4});
  EXPECT_EQ(dense.data, data.data());
  EXPECT_EQ(dense.dtype, DType::f32);
  EXPECT_EQ(dense.rank, 3);
  EXPECT_EQ(dense.shape, (std::array<std::int64_t, 3>{2, 3, 4}));
  EXPECT_EQ(dense.stride, (std::array<std::int64_t, 3>{12, 4, 1}));
  EXPECT_EQ(dense.device, Device{});
  const TensorView line = view(std::span<float>(data), {24});
  EXPECT_EQ(line.rank, 1);
  EXPECT_EQ(line.stride[0], 1);
}

TEST(View, ReadOnlyData) {
  const std::vector<BFloat16> data(12);
  const ConstTensorView dense = view(std::span<const BFloat16>(data), {3, 4});
  EXPECT_EQ(dense.data, data.data());
  EXPECT_EQ(dense.dtype, DType::bf16);
  EXPECT_EQ(dense.stride, (std::array<std::int64_t, 3>{4, 1, 0}));
}

TEST(View, ConvertsToReadOnly) {
  std::vector<std::int32_t> data(4);
  TensorView writable = view(std::span<std::int32_t>(data), {4}, Device{DeviceKind::cuda, 1});
  const ConstTensorView constant = writable;
  EXPECT_EQ(constant.data, writable.data);
  EXPECT_EQ(constant.dtype, DType::i32);
  EXPECT_EQ(constant.device, (Device{DeviceKind::cuda, 1}));
  EXPECT_EQ(constant.rank, 1);
  EXPECT_EQ(constant.shape, writable.shape);
  EXPECT_EQ(constant.stride, writable.stride);
}

TEST(View, EmptyAndSmallerThanItsData) {
  std::vector<float> data(10);
  EXPECT_NO_THROW(view(std::span<float>(data), {3, 3}));
  EXPECT_NO_THROW(view(std::span<float>(data), {10}));
  EXPECT_NO_THROW(view(std::span<float>(), {0, 64}));
  EXPECT_EQ(view(std::span<float>(), {0, 64}).stride[0], 64);
}

TEST(View, Refusals) {
  std::vector<float> data(10);
  const std::span<float> span(data);
  expect_error(ErrorCode::invalid_argument, {"data", "11", "10"}, [&] { view(span, {11}); });
  expect_error(ErrorCode::invalid_argument, {"data", "12", "[3, 4]"}, [&] { view(span, {3, 4}); });
  expect_error(ErrorCode::invalid_argument, {"shape", "-1"}, [&] { view(span, {-1}); });
  // Two negative extents have a positive product.
  expect_error(ErrorCode::invalid_argument, {"shape"}, [&] { view(span, {-2, -2}); });
  expect_error(ErrorCode::invalid_argument, {"shape"}, [&] { view(span, {}); });
  expect_error(ErrorCode::invalid_argument, {"shape"}, [&] { view(span, {1, 1, 1, 1}); });
  // 2^64 elements are not 0 elements.
  constexpr std::int64_t kHuge = std::int64_t{1} << 32;
  EXPECT_THROW(view(span, {kHuge, kHuge}), Error);
  EXPECT_THROW(view(span, {std::numeric_limits<std::int64_t>::max(), 3}), Error);
}

TEST(Describe, InWords) {
  std::vector<BFloat16> data(8192);
  EXPECT_EQ(describe(view(std::span<BFloat16>(data), {128, 64})),
            "bf16 [128, 64] stride [64, 1] on cpu");
  ConstTensorView other = view(std::span<const BFloat16>(data), {2, 8, 16});
  other.device = {DeviceKind::cuda, 3};
  EXPECT_EQ(describe(other), "bf16 [2, 8, 16] stride [128, 16, 1] on cuda:3");
  EXPECT_NE(describe(ConstTensorView{}), "");
}

TEST(Devices, ToString) {
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{DeviceKind::cuda, 0}), "cuda:0");
  EXPECT_EQ(to_string(Device{DeviceKind::cuda, 7}), "cuda:7");
}

}  // namespace
}  // namespace moesaic
