// SPDX-License-Identifier: Apache-2.0
// Regular products against sums in double precision, and what is refused.
#include "moesaic/batched_gemm.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "moesaic/device_memory.hpp"
#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

constexpr std::int64_t kBatch = 3, kM = 5, kN = 16, kK = 24;
constexpr BatchedGemmProblem kProblem = {Format::f32, kBatch, kM, kN, kK};

bool available() {
  try {
    BatchedGemm::plan(kProblem, query_device(Device{}));
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    return false;
  }
}

struct Operands {
  std::vector<float> a = std::vector<float>(kBatch * kM * kK);
  std::vector<float> w = std::vector<float>(kBatch * kN * kK);
  std::vector<float> d = std::vector<float>(kBatch * kM * kN, -77.0F);
  Operands() {
    // Small integers: every sum is exact.
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 5) - 2;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 11 % 7) - 3;
  }
  BatchedGemmArgs args() {
    return {view(std::span<const float>(a), {kBatch, kM, kK}),
            view(std::span<const float>(w), {kBatch, kN, kK}),
            view(std::span(d), {kBatch, kM, kN})};
  }
};

TEST(BatchedGemm, EveryElementOfEveryBatch) {
  if (!available()) GTEST_SKIP() << "no library of dense products in this build";
  const BatchedGemm gemm = BatchedGemm::plan(kProblem, query_device(Device{}));
  EXPECT_TRUE(gemm.implementation().starts_with("cpu/"));
  Operands operands;
  gemm.execute(operands.args(), HostWorkspace(gemm.workspace_bytes()).get(), Stream::cpu());
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t m = 0; m < kM; ++m) {
      for (std::int64_t n = 0; n < kN; ++n) {
        double want = 0;
        for (std::int64_t k = 0; k < kK; ++k) {
          want += static_cast<double>(operands.a[static_cast<std::size_t>((b * kM + m) * kK + k)]) *
                  operands.w[static_cast<std::size_t>((b * kN + n) * kK + k)];
        }
        EXPECT_EQ(operands.d[static_cast<std::size_t>((b * kM + m) * kN + n)], want)
            << b << ' ' << m << ' ' << n;
      }
    }
  }
}

TEST(BatchedGemm, RefusesMalformedProblemsByField) {
  const DeviceInfo cpu = query_device(Device{});
  for (const char* field : {"batch", "m", "n", "k"}) {
    BatchedGemmProblem problem = kProblem;
    const std::string name = field;
    (name == "batch" ? problem.batch
     : name == "m"   ? problem.m
     : name == "n"   ? problem.n
                     : problem.k) = 0;
    expect_error(ErrorCode::invalid_argument, {name + ":", "got 0"},
                 [&] { BatchedGemm::plan(problem, cpu); });
  }
  BatchedGemmProblem problem = kProblem;
  problem.format = Format::mxfp8;
  expect_error(ErrorCode::invalid_argument, {"format", "mxfp8"},
               [&] { BatchedGemm::plan(problem, cpu); });
}

TEST(BatchedGemm, RefusesArgumentsThatDoNotFitAndWritesNothing) {
  if (!available()) GTEST_SKIP() << "no library of dense products in this build";
  const BatchedGemm gemm = BatchedGemm::plan(kProblem, query_device(Device{}));
  const HostWorkspace workspace(gemm.workspace_bytes());
  Operands operands;
  const auto refused = [&](const char* argument, const BatchedGemmArgs& args) {
    expect_error(ErrorCode::invalid_argument, {std::string(argument) + ":"},
                 [&] { gemm.execute(args, workspace.get(), Stream::cpu()); });
  };
  BatchedGemmArgs args = operands.args();
  args.a.shape[1] = kM - 1;
  refused("a", args);
  args = operands.args();
  args.w.stride[1] = kK + 8;
  refused("w", args);
  args = operands.args();
  args.d.data = nullptr;
  refused("d", args);
  args = operands.args();
  args.d.dtype = DType::bf16;
  refused("d", args);
  for (const float value : operands.d) EXPECT_EQ(value, -77.0F);
}

}  // namespace
}  // namespace moesaic::testing
