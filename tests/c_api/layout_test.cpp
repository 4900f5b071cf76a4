// SPDX-License-Identifier: Apache-2.0
// Holds the compiler to the frozen layout, and the enums to those of the C++ API.

#include <gtest/gtest.h>
#include <stddef.h>

#include <type_traits>

#include "moesaic/c_api.h"
#include "moesaic/c_api_exchange.h"
#include "moesaic/expert_mlp.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace {

#define MOESAIC_FIELD(struct_, field, offset) static_assert(offsetof(struct_, field) == (offset));
#define MOESAIC_SIZE(struct_, size)         \
  static_assert(sizeof(struct_) == (size)); \
  static_assert(std::is_trivial_v<struct_> && std::is_standard_layout_v<struct_>);
#include "c_api/layout.inc"
#undef MOESAIC_FIELD
#undef MOESAIC_SIZE

template <class Enum>
constexpr int number(Enum value) {
  return static_cast<int>(value);
}

TEST(CApiLayout, EnumsAreThoseOfTheCxxApi) {
  EXPECT_EQ(moesaic_cuda, number(moesaic::DeviceKind::cuda));
  EXPECT_EQ(moesaic_f32, number(moesaic::DType::f32));
  EXPECT_EQ(moesaic_bf16, number(moesaic::DType::bf16));
  EXPECT_EQ(moesaic_f8_e4m3, number(moesaic::DType::f8_e4m3));
  EXPECT_EQ(moesaic_e8m0, number(moesaic::DType::e8m0));
  EXPECT_EQ(moesaic_i32, number(moesaic::DType::i32));
  EXPECT_EQ(moesaic_dgrad, number(moesaic::Pass::dgrad));
  EXPECT_EQ(moesaic_wgrad, number(moesaic::Pass::wgrad));
  EXPECT_EQ(moesaic_format_f32, number(moesaic::Format::f32));
  EXPECT_EQ(moesaic_format_mxfp8, number(moesaic::Format::mxfp8));
  EXPECT_EQ(moesaic_ekn, number(moesaic::WeightStorage::ekn));
  EXPECT_EQ(moesaic_tail_zero, number(moesaic::Tail::zero));
  EXPECT_EQ(moesaic_padded_bmm, number(moesaic::Strategy::padded_bmm));
  EXPECT_EQ(moesaic_host_loop, number(moesaic::Strategy::host_loop));
  EXPECT_EQ(moesaic_eight_row, number(moesaic::CapacityRule::eight_row));
  EXPECT_EQ(moesaic_recompute, number(moesaic::Activations::recompute));
  EXPECT_EQ(moesaic_in_order, number(moesaic::XRows::in_order));
  EXPECT_EQ(moesaic_indexed, number(moesaic::XRows::indexed));
  EXPECT_EQ(moesaic_copied, number(moesaic::XRows::copied));
}

}  // namespace
