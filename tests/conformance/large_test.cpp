// SPDX-License-Identifier: Apache-2.0
// 64-bit addressing: tensors of more than 2^31 elements and 2^32 bytes, of which only the pages in
// use exist.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

/// Zero pages that come into being when touched.
class SparseMemory {
 public:
  explicit SparseMemory(std::int64_t size_bytes)
      : size_(static_cast<std::size_t>(size_bytes)),
        data_(mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (data_ != MAP_FAILED) {
      munmap(data_, size_);
    }
  }
  [[nodiscard]] bool ok() const { return data_ != MAP_FAILED; }
  [[nodiscard]] BFloat16* elements() const { return static_cast<BFloat16*>(data_); }

 private:
  std::size_t size_;
  void* data_;
};

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 8;  // elements

void fill(BFloat16* values, std::int64_t count, std::mt19937_64& random) {
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = BFloat16(static_cast<float>(static_cast<int>(random() % 3) - 1));
  }
}
double number(BFloat16 value) { return static_cast<float>(value); }

class Large : public ::testing::TestWithParam<Implementation> {};

class LargeExactRows : public Large {};

/// Three experts whose weights lie 2^31 elements apart.
TEST_P(Large, WeightsBeyondTwoToThe31) {
  constexpr std::int64_t kN = 16, kK = 24;
  const SparseMemory weights((2 * kFar + kN * kK) * 2);
  if (!weights.ok()) {
    GTEST_SKIP() << "this machine does not map 8 GiB without reserving them";
  }
  GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, kBf16ToF32, 3, 30, kN, kK),
                 {10, 10, 30});
  fill_operands(run, 1, 0.5, 1);
  std::mt19937_64 random(2);
  for (std::int64_t expert = 0; expert < 3; ++expert) {
    fill(weights.elements() + expert * kFar, kN * kK, random);
  }
  GroupedGemmArgs args = run.args();
  args.b.qdata = {weights.elements(), DType::bf16, Device{}, 3, {3, kN, kK}, {kFar, kK, 1}};
  const GroupedGemm gemm = plan(run.problem, GetParam());
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(args, workspace.get(), Stream::cpu());
  for (const std::int64_t expert : {0, 2}) {
    const BFloat16* w = weights.elements() + expert * kFar;
    for (std::int64_t row = run.segment(expert).begin; row < run.segment(expert).end; ++row) {
      for (std::int64_t j = 0; j < kN; ++j) {
        double sum = 0;
        for (std::int64_t c = 0; c < kK; ++c) {
          sum += run.a.get(0, row, c) * number(w[j * kK + c]);
        }
        ASSERT_EQ(run.d.get(0, row, j), sum) << expert << " " << row << " " << j;
      }
    }
  }
}

/// dw of three experts 2^31 elements apart; the pages between stay unwritten.
TEST_P(Large, WeightGradientsBeyondTwoToThe31) {
  constexpr std::int64_t kN = 16, kK = 24;
  const SparseMemory gradients((2 * kFar + kN * kK) * 2);
  if (!gradients.ok()) {
    GTEST_SKIP() << "this machine does not map 8 GiB without reserving them";
  }
  GroupedRun run(make_problem(Pass::wgrad, WeightStorage::enk, kBf16, 3, 30, kN, kK), {10, 10, 30});
  fill_operands(run, 1, 0.5, 3);
  GroupedGemmArgs args = run.args();
  args.d = {gradients.elements(), DType::bf16, Device{}, 3, {3, kN, kK}, {kFar, kK, 1}};
  const GroupedGemm gemm = plan(run.problem, GetParam());
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(args, workspace.get(), Stream::cpu());
  for (std::int64_t expert = 0; expert < 3; ++expert) {
    for (std::int64_t i = 0; i < kN; ++i) {
      for (std::int64_t j = 0; j < kK; ++j) {
        ASSERT_EQ(number(gradients.elements()[expert * kFar + i * kK + j]),
                  static_cast<double>(run.integer_sum(expert, i, j)))
            << expert << " " << i << " " << j;
      }
    }
  }
  EXPECT_EQ(gradients.elements()[kN * kK].bits, 0);
  EXPECT_EQ(gradients.elements()[kFar - 1].bits, 0);
  EXPECT_EQ(gradients.elements()[kFar + kN * kK].bits, 0);
}

/// Rows past element 2^31 of x and y: 525,312 rows of 4,096 (and more) elements. Only the last
/// expert has rows, since the end before it is the start of its few.
TEST_P(LargeExactRows, RowsBeyondTwoToThe31) {
  constexpr std::int64_t kRows = 525'312, kStride = 4'104, kN = 16, kK = 24;
  static_assert(kRows * kStride > kFar);
  const SparseMemory x(kRows * kStride * 2);
  const SparseMemory y(kRows * kStride * 2);
  if (!x.ok() || !y.ok()) {
    GTEST_SKIP() << "this machine does not map 8 GiB without reserving them";
  }
  // The first end is wrong, which makes experts 0 and 1 empty.
  const std::vector<std::int32_t> offs = {-1, kRows - 40, kRows - 1};
  GroupedGemmProblem problem =
      make_problem(Pass::forward, WeightStorage::enk, kBf16, 3, kRows, kN, kK);
  HostTensor w(DType::bf16, 3, kN, kK);
  fill_integers(w, 0, kN, 1, 0.5, 4);
  std::mt19937_64 random(5);
  for (std::int64_t row = kRows - 40; row < kRows; ++row) {
    fill(x.elements() + row * kStride, kK, random);
  }
  GroupedGemmArgs args;
  args.a.qdata = {x.elements(), DType::bf16, Device{}, 2, {kRows, kK, 0}, {kStride, 1, 0}};
  args.b.qdata = w.view();
  args.offs = moesaic::view(std::span<const std::int32_t>(offs), {3});
  args.d = {y.elements(), DType::bf16, Device{}, 2, {kRows, kN, 0}, {kStride, 1, 0}};
  const GroupedGemm gemm = plan(problem, GetParam());
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(args, workspace.get(), Stream::cpu());
  for (std::int64_t row = kRows - 40; row < kRows; ++row) {
    for (std::int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < kK; ++c) {
        sum += number(x.elements()[row * kStride + c]) * w.get(2, j, c);
      }
      ASSERT_EQ(number(y.elements()[row * kStride + j]), row == kRows - 1 ? 0 : sum) << row;
    }
  }
}

/// A few rows that lie very far apart: 2^28 elements, so that eight rows span 2^31.
TEST_P(Large, RowStridesThatSpanTwoToThe31WithinATile) {
  constexpr std::int64_t kRows = 20, kStride = std::int64_t{1} << 28, kN = 16, kK = 24;
  const SparseMemory x(kRows * kStride * 2);
  const SparseMemory y(kRows * kStride * 2);
  if (!x.ok() || !y.ok()) {
    GTEST_SKIP() << "this machine does not map 20 GiB without reserving them";
  }
  std::mt19937_64 random(6);
  for (std::int64_t row = 0; row < kRows; ++row) {
    fill(x.elements() + row * kStride, kK, random);
  }
  HostTensor w(DType::bf16, 1, kN, kK);
  fill_integers(w, 0, kN, 1, 0.5, 7);
  const std::vector<std::int32_t> offs = {kRows};
  GroupedGemmArgs args;
  args.a.qdata = {x.elements(), DType::bf16, Device{}, 2, {kRows, kK, 0}, {kStride, 1, 0}};
  args.b.qdata = w.view();
  args.offs = moesaic::view(std::span<const std::int32_t>(offs), {1});
  args.d = {y.elements(), DType::bf16, Device{}, 2, {kRows, kN, 0}, {kStride, 1, 0}};
  const GroupedGemm gemm =
      plan(make_problem(Pass::forward, WeightStorage::enk, kBf16, 1, kRows, kN, kK), GetParam());
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(args, workspace.get(), Stream::cpu());
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < kK; ++c) {
        sum += number(x.elements()[row * kStride + c]) * w.get(0, j, c);
      }
      ASSERT_EQ(number(y.elements()[row * kStride + j]), sum) << row << " " << j;
    }
  }
}

std::string parameter_name(const ::testing::TestParamInfo<Implementation>& instance) {
  return test_name(instance.param.name);
}
INSTANTIATE_TEST_SUITE_P(All, Large, ::testing::ValuesIn(runnable()), parameter_name);
INSTANTIATE_TEST_SUITE_P(All, LargeExactRows,
                         ::testing::ValuesIn(runnable({Strategy::grouped, Strategy::host_loop})),
                         parameter_name);

}  // namespace
}  // namespace moesaic::testing
