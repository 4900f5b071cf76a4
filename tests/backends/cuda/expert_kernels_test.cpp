// SPDX-License-Identifier: Apache-2.0
// Which kernels an expert takes: in pairs of CTAs where they pay, or as the named one is. No device
// is needed.

#include "backends/cuda/launch/expert_kernels.hpp"

#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/launch/choose.hpp"

namespace moesaic::backends::cuda::launch {
namespace {

const std::string kSingle = "cuda/sm90/bf16_swiglu_128x256_k";
const std::string kPairs = "cuda/sm90/bf16_swiglu_2x128x256_k";
const std::string kGathering = "cuda/sm90/bf16_swiglu_128x256_k_gather";

ExpertMlpProblem expert_of(std::int64_t mean_rows) {
  ExpertMlpProblem mlp{};
  mlp.num_experts = 16;
  mlp.max_rows = 16 * mean_rows;
  mlp.d = 512;
  mlp.h = 200;
  return mlp;
}
DeviceInfo device_of(int num_sms) {
  DeviceInfo device;
  device.compute_capability = 90;
  device.num_sms = num_sms;
  return device;
}
GroupedGemmProblem product_of(const ExpertMlpProblem& mlp, Pass pass) {
  GroupedGemmProblem gemm;
  gemm.pass = pass;
  gemm.d_dtype = DType::bf16;
  gemm.num_experts = mlp.num_experts;
  gemm.max_rows = mlp.max_rows;
  gemm.n = mlp.d;
  gemm.k = mlp.h;
  return gemm;
}

/// All in pairs, or none; the plain products by name only where the expert's kernel has one.
void expect_pairs(const ExpertMlpProblem& mlp, const std::optional<ExpertKernels>& kernels,
                  bool pairs, bool named) {
  ASSERT_TRUE(kernels.has_value());
  EXPECT_EQ(implementation_name(*kernels->up_gate), pairs ? kPairs : kSingle);
  EXPECT_EQ(kernels->down_gradient->name,
            pairs ? "bf16_dswiglu_2x128x256_mn" : "bf16_dswiglu_128x256_mn");
  const auto expect_product = [&](Pass pass, DType d_dtype, const std::string& of_single,
                                  const std::string& of_pairs) {
    GroupedGemmProblem gemm = product_of(mlp, pass);
    gemm.d_dtype = d_dtype;
    const std::string name = "cuda/sm90/" + (pairs ? of_pairs : of_single);
    EXPECT_EQ(kernels->product(gemm).value_or(""), named ? name : "");
  };
  expect_product(Pass::forward, DType::bf16, "bf16_rows_128x256_k", "bf16_rows_2x128x256_k");
  expect_product(Pass::dgrad, DType::bf16, "bf16_rows_128x256_mn", "bf16_rows_2x128x256_mn");
  expect_product(Pass::wgrad, DType::bf16, "bf16_wgrad_128x256", "bf16_wgrad_2x128x256");
  expect_product(Pass::wgrad, DType::f32, "f32_wgrad_128x256", "f32_wgrad_2x128x256");
  // Sums in FP32 have no pairs.
  expect_product(Pass::forward, DType::f32, "f32_rows_128x256_k", "f32_rows_128x256_k");
}

TEST(ExpertKernels, AreInPairsWherePairsPay) {
  for (const std::int64_t mean : {0, 1, 2047, 2048, 8192}) {
    for (const int num_sms : {1, 2, 132}) {
      const ExpertMlpProblem mlp = expert_of(mean);
      expect_pairs(mlp, ExpertKernels::choose(mlp, device_of(num_sms), {}),
                   mean >= 2048 && num_sms > 1, false);
    }
  }
}

TEST(ExpertKernels, AreAllAsTheNamedOneIs) {
  for (const std::int64_t mean : {1, 8192}) {
    const ExpertMlpProblem mlp = expert_of(mean);
    expect_pairs(mlp, ExpertKernels::choose(mlp, device_of(132), kSingle), false, true);
    expect_pairs(mlp, ExpertKernels::choose(mlp, device_of(132), kPairs), true, true);
    expect_pairs(mlp, ExpertKernels::choose(mlp, device_of(2), kPairs), true, true);
    EXPECT_FALSE(ExpertKernels::choose(mlp, device_of(1), kPairs)) << "a pair needs two SMs";
    for (const char* const other : {"", "cuda/sm90/bf16_rows_128x256_k", "bf16_swiglu_128x256_k"}) {
      EXPECT_FALSE(ExpertKernels::choose(mlp, device_of(132), other)) << other;
    }
    EXPECT_FALSE(ExpertKernels::choose(mlp, device_of(132), kGathering));
  }
}

// Rows that are gathered come one CTA at a time, whatever the products beside them do.
TEST(ExpertKernels, GatherOneCtaAtATime) {
  for (const std::int64_t mean : {1, 8192}) {
    ExpertMlpProblem mlp = expert_of(mean);
    mlp.x_rows = XRows::indexed;
    const auto kernels = ExpertKernels::choose(mlp, device_of(132), {});
    ASSERT_TRUE(kernels.has_value());
    EXPECT_EQ(implementation_name(*kernels->up_gate), kGathering);
    EXPECT_EQ(kernels->down_gradient->config.pair, mean == 8192);
    EXPECT_FALSE(kernels->weighted_down->config.pair);
    EXPECT_FALSE(kernels->up_gate_wgrad->config.pair);
    EXPECT_FALSE(ExpertKernels::choose(mlp, device_of(132), kPairs));
    const auto named = ExpertKernels::choose(mlp, device_of(132), kGathering);
    ASSERT_TRUE(named.has_value());
    EXPECT_FALSE(named->down_gradient->config.pair);
  }
}

}  // namespace
}  // namespace moesaic::backends::cuda::launch
