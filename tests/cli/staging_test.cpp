// SPDX-License-Identifier: Apache-2.0
// Host tensors mirrored: on the CPU as on a device, and on CUDA devices where there are any.
#include "tools/moesaic/staging.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/support/expect_error.hpp"
#include "tools/moesaic/compare.hpp"
#include "tools/moesaic/operands.hpp"

namespace moesaic::cli {
namespace {

using testing::expect_error;

constexpr std::int64_t kRows = 9, kWidth = 16;

/// The CPU on host tensors, the CPU on mirrors of them, and every device.
std::vector<std::unique_ptr<Site>> sites() {
  std::vector<std::unique_ptr<Site>> found;
  for (const DeviceInfo& device : list_devices().devices) {
    found.push_back(std::make_unique<Site>(device.device));
  }
  found.push_back(std::make_unique<Site>(Device{}, CpuMemory::apart));
  return found;
}

HostTensor filled(DType dtype, TensorLayout layout = {}) {
  HostTensor tensor(dtype, {kRows, kWidth}, layout);
  fill_normal(tensor, 1, 7, OperandStream::x);
  return tensor;
}

/// `there` as it lies at the site.
HostTensor content(const HostTensor& like, const Mirror& there, const Site& site) {
  HostTensor copy = like.clone();
  there.download(copy, site);
  return copy;
}

/// What one execute would write: rows of `source`, from `begin` to `end`.
void write_rows(HostTensor& d, Mirror& there, const HostTensor& source, std::int64_t begin,
                std::int64_t end, const Site& site) {
  HostTensor staged = content(d, there, site);
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t column = 0; column < kWidth; ++column) {
      staged.set(row, column, source.get(row, column));
    }
  }
  if (site.on_host()) {
    d.copy_from(staged);
  } else {
    there.upload(staged, site);
  }
}

TEST(Mirror, FindsWhatNobodyHasWritten) {
  const std::vector<std::int32_t> offs = {3, 3, 7};
  for (const auto& here : sites()) {
    const Site& site = *here;
    for (const DType dtype : {DType::bf16, DType::f32}) {
      const HostTensor right = filled(dtype);
      HostTensor d(dtype, {kRows, kWidth});
      Mirror there;
      there.reserve(d, site);
      there.poison(d, site);
      CheckResult check = find_unwritten("y", d, there, offs, site);
      EXPECT_EQ(check.mismatches, 7 * kWidth);
      ASSERT_TRUE(check.first.has_value());
      EXPECT_EQ(check.first->tensor, "y (not written)");
      EXPECT_EQ(check.elements, 0);
      write_rows(d, there, right, 0, 7, site);
      EXPECT_EQ(find_unwritten("y", d, there, offs, site).mismatches, 0);
      EXPECT_GT(find_unwritten("y", d, there, std::vector<std::int32_t>{8}, site).mismatches, 0);
      there.poison(d, site);
      write_rows(d, there, right, 0, 5, site);
      check = find_unwritten("y", d, there, offs, site);
      EXPECT_EQ(check.mismatches, 2 * kWidth);
      EXPECT_EQ(check.first->expert, 2);
      EXPECT_EQ(check.first->row, 5);
      EXPECT_EQ(check.first->column, 0);
      EXPECT_TRUE(std::isnan(check.first->got));
      there.clear(d, site);
      EXPECT_EQ(find_unwritten("y", d, there, offs, site).mismatches, 0);
    }
  }
}

/// A half of an f32 that looks like poison is none.
TEST(Mirror, TakesNoPartOfAnElementForPoison) {
  for (const auto& here : sites()) {
    const Site& site = *here;
    HostTensor d(DType::f32, {1, 4});
    Mirror there;
    for (std::int64_t column = 0; column < 4; ++column) d.set(0, column, 1.0F);
    d.row_data(0)[4] = std::byte{0xC3};
    d.row_data(0)[5] = std::byte{0xFF};
    there.upload(d, site);
    EXPECT_EQ(find_unwritten("y", d, there, std::vector<std::int32_t>{1}, site).mismatches, 0);
  }
}

TEST(Mirror, BringsBackTheRowsThatAreAskedForAlone) {
  for (const auto& here : sites()) {
    const Site& site = *here;
    if (site.on_host()) continue;  // where the mirror is the tensor itself
    const HostTensor right = filled(DType::bf16);
    Mirror there;
    there.upload(right, site);
    HostTensor back(DType::bf16, {kRows, kWidth});
    back.poison();
    download_rows(back, there, kWidth, std::vector<std::int64_t>{0, 4, 5, 8}, site);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const bool asked = row == 0 || row == 4 || row == 5 || row == 8;
      for (std::int64_t column = 0; column < kWidth; ++column) {
        if (asked) {
          ASSERT_EQ(back.get(row, column), right.get(row, column)) << row;
        } else {
          ASSERT_TRUE(std::isnan(back.get(row, column))) << row;
        }
      }
    }
    // Rows of another width: the first half of row 1 is row 2 of rows half as wide.
    back.poison();
    download_rows(back, there, kWidth / 2, std::vector<std::int64_t>{2}, site);
    EXPECT_EQ(back.get(1, 0), right.get(1, 0));
    EXPECT_EQ(back.get(1, kWidth / 2 - 1), right.get(1, kWidth / 2 - 1));
    EXPECT_TRUE(std::isnan(back.get(1, kWidth / 2)));
    EXPECT_TRUE(std::isnan(back.get(0, kWidth - 1)));
  }
}

TEST(Mirror, RefusesToCountInGaps) {
  for (const auto& here : sites()) {
    const Site& site = *here;
    if (site.on_host()) continue;
    HostTensor d = filled(DType::bf16, {.row_gap = 8});
    Mirror there;
    there.upload(d, site);
    expect_error(ErrorCode::invalid_argument, {"result", "without gaps", "distance of 24"},
                 [&] { static_cast<void>(there.count_poison(d, 1, site)); });
  }
}

}  // namespace
}  // namespace moesaic::cli
