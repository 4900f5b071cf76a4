// SPDX-License-Identifier: Apache-2.0
// The comparison behind `verify` must see every kind of damage to a right result.
#include "tools/moesaic/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tools/moesaic/gemm_fixture.hpp"
#include "tools/moesaic/operands.hpp"

namespace moesaic::cli {
namespace {

GroupedGemmProblem problem(Pass pass, Format format) {
  GroupedGemmProblem result;
  result.pass = pass;
  result.format = format;
  result.d_dtype = format == Format::bf16 ? DType::bf16 : DType::f32;
  result.num_experts = 3;
  result.max_rows = 9;
  result.n = 8;
  result.k = 16;
  return result;
}

/// A right result of experts with 3, 0 and 4 rows, and what it is compared with.
struct Sound {
  GemmFixture fixture;
  HostTensor want;
  explicit Sound(Pass pass = Pass::forward, Format format = Format::bf16)
      : fixture(problem(pass, format), {3, 3, 7}, Contents::integers, 5), want(fixture.expected()) {
    fixture.d().copy_from(want);
  }
  [[nodiscard]] CheckResult compare() {
    return compare_exactly(fixture.output_name(), fixture.d(), want, fixture.offs());
  }
};

TEST(Compare, AcceptsARightResultAndCountsIt) {
  for (const Format format : {Format::bf16, Format::f32}) {
    EXPECT_EQ(Sound(Pass::forward, format).compare().elements, 9 * 8);
    EXPECT_EQ(Sound(Pass::dgrad, format).compare().elements, 9 * 16);
    EXPECT_EQ(Sound(Pass::wgrad, format).compare().elements, 3 * 8 * 16);
    EXPECT_EQ(Sound(Pass::wgrad, format).compare().mismatches, 0);
  }
}

TEST(Compare, FindsEverySingleWrongElement) {
  for (const Pass pass : {Pass::forward, Pass::wgrad}) {
    Sound sound(pass);
    HostTensor& d = sound.fixture.d();
    for (std::int64_t row = 0; row < d.rows(); ++row) {
      for (std::int64_t column = 0; column < d.width(); ++column) {
        const float right = d.get(row, column);
        d.set(row, column, std::isnan(right) ? 0 : right + 1);
        const CheckResult check = sound.compare();
        ASSERT_EQ(check.mismatches, 1);
        const std::int64_t at = pass == Pass::wgrad ? row % 8 : row;
        EXPECT_EQ(check.first->row, at);
        EXPECT_EQ(check.first->column, column);
        d.copy_from(sound.want);
      }
    }
    EXPECT_EQ(sound.compare().mismatches, 0);
  }
}

TEST(Compare, NamesExpertGotAndWant) {
  Sound sound;
  const float right = sound.want.get(5, 2);
  sound.fixture.d().set(5, 2, right + 3);
  const CheckResult check = sound.compare();
  ASSERT_TRUE(check.first);
  EXPECT_EQ(check.first->tensor, "y");
  EXPECT_EQ(check.first->expert, 2);
  EXPECT_EQ(check.first->got, right + 3);
  EXPECT_EQ(check.first->want, right);
  EXPECT_EQ(check.worst, std::numeric_limits<double>::infinity());
}

TEST(Compare, NamesTheExpertOfAWeightGradient) {
  Sound sound(Pass::wgrad);
  sound.fixture.d().set(2 * 8 + 1, 4, 100);
  const CheckResult check = sound.compare();
  ASSERT_TRUE(check.first);
  EXPECT_EQ(check.first->expert, 2);
  EXPECT_EQ(check.first->row, 1);
}

TEST(Compare, SeesAWrittenTailRow) {
  Sound sound;
  sound.fixture.d().set(8, 0, 0);
  const CheckResult check = sound.compare();
  ASSERT_EQ(check.mismatches, 1);
  EXPECT_EQ(check.first->expert, -1);
  EXPECT_EQ(check.first->row, 8);
}

TEST(Compare, SeesWritesIntoGapsAndGuards) {
  Sound sound;
  HostTensor& d = sound.fixture.d();
  std::byte& gap = d.row_data(2)[d.width() * 2];
  gap ^= std::byte{1};
  EXPECT_EQ(sound.compare().first->column, d.width());
  gap ^= std::byte{1};
  for (std::byte* at : {d.row_data(0) - 1, d.row_data(d.rows()), &d.bytes().front()}) {
    *at ^= std::byte{1};
    const CheckResult check = sound.compare();
    ASSERT_EQ(check.mismatches, 1);
    EXPECT_EQ(check.first->tensor, "y guard");
    *at ^= std::byte{1};
  }
  EXPECT_EQ(sound.compare().mismatches, 0);
}

TEST(Compare, MinusZeroMayStandForAComputedZeroAndNothingElse) {
  HostTensor want(DType::f32, {1, 4});
  want.poison();
  for (std::int64_t i = 0; i < 4; ++i) want.set(0, i, 0);
  HostTensor got = want.clone();
  got.set(0, 1, -0.0F);
  const std::vector<std::int32_t> offs = {1};
  EXPECT_EQ(compare_exactly("y", got, want, offs).mismatches, 0);
  got.set(0, 2, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(compare_exactly("y", got, want, offs).mismatches, 1);
  want.set(0, 3, -0.0F);  // kept content
  EXPECT_EQ(compare_exactly("y", got, want, offs).mismatches, 2);
}

TEST(FindUnwritten, CountsPoisonInValidRowsOnly) {
  HostTensor y(DType::bf16, {5, 4});
  y.poison();
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t i = 0; i < 4; ++i) y.set(row, i, 1);
  }
  EXPECT_EQ(find_unwritten("y", y, std::vector<std::int32_t>{2, 3}).mismatches, 0);
  const CheckResult check = find_unwritten("y", y, std::vector<std::int32_t>{2, 4});
  EXPECT_EQ(check.mismatches, 4);
  EXPECT_EQ(check.elements, 0);
  EXPECT_EQ(check.first->expert, 1);
  EXPECT_EQ(check.first->row, 3);
}

TEST(FindUnwritten, TellsPoisonFromAComputedNan) {
  HostTensor y(DType::f32, {1, 1});
  y.set(0, 0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(find_unwritten("y", y, std::vector<std::int32_t>{1}).mismatches, 0);
}

TEST(ExpertOfRow, FollowsTheContractOnWrongOffsets) {
  const std::vector<std::int32_t> offs = {4, -1, 9, 12};
  EXPECT_EQ(expert_of_row(offs, 20, 3), 0);
  EXPECT_EQ(expert_of_row(offs, 20, 5), -1);
  EXPECT_EQ(expert_of_row(offs, 20, 9), 3);
  EXPECT_EQ(expert_of_row(offs, 20, 12), -1);
}

}  // namespace
}  // namespace moesaic::cli
