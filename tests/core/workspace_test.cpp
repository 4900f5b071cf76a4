// SPDX-License-Identifier: Apache-2.0
// Host workspaces: aligned, zeroed, and safe to move.
#include "moesaic/workspace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/workspace_header.hpp"
#include "math/fault_word.hpp"
#include "support/expect_error.hpp"

namespace moesaic {
namespace {

using testing::expect_error;

TEST(HostWorkspace, AlignedZeroedAndOfTheAskedSize) {
  for (const std::size_t size : {0U, 1U, 255U, 256U, 257U, 100'000U}) {
    std::vector<HostWorkspace> several;
    several.reserve(8);
    for (int i = 0; i < 8; ++i) {  // different addresses
      several.emplace_back(size);
      const Workspace workspace = several.back().get();
      EXPECT_EQ(workspace.bytes.size(), size);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace.bytes.data()) % kWorkspaceAlignment, 0u);
      EXPECT_EQ(workspace.device, Device{});
      EXPECT_TRUE(std::all_of(workspace.bytes.begin(), workspace.bytes.end(),
                              [](std::byte byte) { return byte == std::byte{0}; }));
    }
  }
}

TEST(HostWorkspace, MovesWithItsMemory) {
  HostWorkspace first(1024);
  first.get().bytes[100] = std::byte{42};
  const std::byte* address = first.get().bytes.data();
  const HostWorkspace second = std::move(first);
  EXPECT_EQ(second.get().bytes.data(), address);
  EXPECT_EQ(second.get().bytes.size(), 1024u);
  EXPECT_EQ(second.get().bytes[100], std::byte{42});
}

/// A copy must not point into the original, which may be gone when the copy is used.
TEST(HostWorkspace, ACopyDoesNotShareMemory) {
  if constexpr (std::is_copy_constructible_v<HostWorkspace>) {
    const HostWorkspace first(1024);
    const HostWorkspace second(first);  // NOLINT(performance-unnecessary-copy-initialization)
    EXPECT_NE(second.get().bytes.data(), first.get().bytes.data());
  }
}

TEST(CheckWorkspace, RefusesWithTheCode) {
  const HostWorkspace host(1024);
  const Workspace good = host.get();
  EXPECT_NO_THROW(core::check_workspace(good, 1024, Device{}));
  expect_error(ErrorCode::workspace_too_small, {"workspace", "1025", "1024"},
               [&] { core::check_workspace(good, 1025, Device{}); });
  expect_error(ErrorCode::workspace_too_small, {"workspace", "256"},
               [&] { core::check_workspace(Workspace{}, 256, Device{}); });
  expect_error(ErrorCode::workspace_too_small, {"workspace", "256-byte aligned", "16"}, [&] {
    core::check_workspace({good.bytes.subspan(16), Device{}}, 256, Device{});
  });
  expect_error(ErrorCode::invalid_argument, {"workspace", "cuda:0", "cpu"}, [&] {
    core::check_workspace(good, 256, Device{DeviceKind::cuda, 0});
  });
}

TEST(FaultWords, DecodeToPublicFaults) {
  EXPECT_FALSE(core::decode_fault(0));
  EXPECT_EQ(core::decode_fault(0).expert, -1);
  const math::Fault fault{math::FaultKind::offs_out_of_range, 4095, -2'147'483'647 - 1};
  const DeviceFault decoded = core::decode_fault(math::encode_fault(fault));
  EXPECT_EQ(decoded.kind, DeviceFault::Kind::offs_out_of_range);
  EXPECT_EQ(decoded.expert, 4095);
  EXPECT_EQ(decoded.value, -2'147'483'648);
}

}  // namespace
}  // namespace moesaic
