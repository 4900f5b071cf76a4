// SPDX-License-Identifier: Apache-2.0
// Sizes at the limit, past it, and far past what the integers hold.
#include "core/sizes.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/expect_error.hpp"

namespace moesaic::core {
namespace {

using testing::expect_error;

TEST(CheckedBytes, RoundUpToTheWorkspaceAlignment) {
  EXPECT_EQ(checked_bytes("x", {}), 256);
  EXPECT_EQ(checked_bytes("x", {0}), 0);
  EXPECT_EQ(checked_bytes("x", {3, 5}), 256);
  EXPECT_EQ(checked_bytes("x", {16, 16}), 256);
  EXPECT_EQ(checked_bytes("x", {257}), 512);
  EXPECT_EQ(checked_bytes("x", {math::kInt64Max, math::kInt64Max, 0}), 0);
  EXPECT_EQ(checked_bytes("x", {0, math::kInt64Max, math::kInt64Max}), 0);
}

TEST(CheckedBytes, RefuseWhatIsPastTheLimit) {
  EXPECT_EQ(checked_bytes("x", {kMostWorkspaceBytes}), kMostWorkspaceBytes);
  EXPECT_EQ(checked_bytes("x", {kMostWorkspaceBytes / 8, 8}), kMostWorkspaceBytes);
  expect_error(ErrorCode::invalid_argument, {"capacity", "2^62 bytes", "4611686018427387905 bytes"},
               [] { checked_bytes("capacity", {kMostWorkspaceBytes + 1}); });
  expect_error(ErrorCode::invalid_argument, {"capacity", "2^62 bytes", "3 * 1073741824 * "}, [] {
    checked_bytes("capacity", {3, 1 << 30, std::int64_t{1} << 40});
  });
}

TEST(CheckedTotalBytes, RefuseWhatIsPastTheLimit) {
  EXPECT_EQ(checked_total_bytes("x", {}), 0);
  EXPECT_EQ(checked_total_bytes("x", {1, 2, 4}), 7);
  EXPECT_EQ(checked_total_bytes("x", {kMostWorkspaceBytes - 1, 1}), kMostWorkspaceBytes);
  expect_error(ErrorCode::invalid_argument, {"max_rows", "2^62 bytes", "4611686018427387904 + 1"},
               [] {
                 checked_total_bytes("max_rows", {kMostWorkspaceBytes, 1});
               });
  expect_error(ErrorCode::invalid_argument, {"max_rows"}, [] {
    checked_total_bytes("max_rows",
                        {kMostWorkspaceBytes, kMostWorkspaceBytes, kMostWorkspaceBytes});
  });
}

}  // namespace
}  // namespace moesaic::core
