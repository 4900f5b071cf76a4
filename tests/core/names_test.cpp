// SPDX-License-Identifier: Apache-2.0
// The words of the enums, which results and command lines contain.
#include <gtest/gtest.h>

#include "moesaic/expert_mlp.hpp"
#include "moesaic/expert_parallel.hpp"
#include "moesaic/grouped_gemm.hpp"

namespace moesaic {
namespace {

TEST(Names, AreTheEnumConstants) {
  EXPECT_EQ(name(Pass::forward), "forward");
  EXPECT_EQ(name(Pass::dgrad), "dgrad");
  EXPECT_EQ(name(Pass::wgrad), "wgrad");
  EXPECT_EQ(name(Format::bf16), "bf16");
  EXPECT_EQ(name(Format::f32), "f32");
  EXPECT_EQ(name(Format::mxfp8), "mxfp8");
  EXPECT_EQ(name(WeightStorage::enk), "enk");
  EXPECT_EQ(name(WeightStorage::ekn), "ekn");
  EXPECT_EQ(name(Tail::leave), "leave");
  EXPECT_EQ(name(Tail::zero), "zero");
  EXPECT_EQ(name(Strategy::grouped), "grouped");
  EXPECT_EQ(name(Strategy::padded_bmm), "padded_bmm");
  EXPECT_EQ(name(Strategy::host_loop), "host_loop");
  EXPECT_EQ(name(CapacityRule::ceil_mean), "ceil_mean");
  EXPECT_EQ(name(CapacityRule::eight_row), "eight_row");
  EXPECT_EQ(name(UpGateOrder::up_gate), "up_gate");
  EXPECT_EQ(name(UpGateOrder::gate_up), "gate_up");
  EXPECT_EQ(name(UpGateOrder::interleaved), "interleaved");
  EXPECT_EQ(name(Activations::save), "save");
  EXPECT_EQ(name(Activations::recompute), "recompute");
  EXPECT_EQ(name(XRows::in_order), "in_order");
  EXPECT_EQ(name(XRows::indexed), "indexed");
  EXPECT_EQ(name(XRows::copied), "copied");
  EXPECT_EQ(name(DispatchForm::automatic), "auto");
  EXPECT_EQ(name(DispatchForm::direct), "direct");
  EXPECT_EQ(name(DispatchForm::fan_out), "fan_out");
}

TEST(Names, OfNoEnumConstantAreUnknown) {
  EXPECT_EQ(name(static_cast<Pass>(3)), "unknown");
  EXPECT_EQ(name(static_cast<Format>(3)), "unknown");
  EXPECT_EQ(name(static_cast<WeightStorage>(2)), "unknown");
  EXPECT_EQ(name(static_cast<Tail>(2)), "unknown");
  EXPECT_EQ(name(static_cast<Strategy>(255)), "unknown");
  EXPECT_EQ(name(static_cast<CapacityRule>(2)), "unknown");
  EXPECT_EQ(name(static_cast<UpGateOrder>(3)), "unknown");
  EXPECT_EQ(name(static_cast<Activations>(2)), "unknown");
  EXPECT_EQ(name(static_cast<XRows>(3)), "unknown");
  EXPECT_EQ(name(static_cast<DispatchForm>(3)), "unknown");
}

}  // namespace
}  // namespace moesaic
