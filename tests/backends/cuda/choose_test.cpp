// SPDX-License-Identifier: Apache-2.0
// Which compiled kernel takes which problem, and the reasons of refusals. No device is needed.

#include "backends/cuda/launch/choose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace moesaic::backends::cuda::launch {
namespace {

constexpr int kExperts = 16;

GroupedGemmProblem problem_of(Pass pass, WeightStorage weights, DType d_dtype, std::int64_t rows) {
  GroupedGemmProblem problem;
  problem.pass = pass;
  problem.d_dtype = d_dtype;
  problem.num_experts = kExperts;
  problem.max_rows = rows;
  problem.n = 1408;
  problem.k = 768;
  problem.weights = weights;
  return problem;
}

/// Every pass, storage and output type, from no rows to many.
std::vector<GroupedGemmProblem> problems() {
  std::vector<GroupedGemmProblem> all;
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
      for (const DType d_dtype : {DType::bf16, DType::f32}) {
        for (const std::int64_t mean : {0, 1, 63, 64, 65, 500, 4095, 4096, 20000}) {
          all.push_back(problem_of(pass, weights, d_dtype, mean * kExperts));
        }
      }
    }
  }
  return all;
}

TEST(ChooseInstance, EveryProblemHasAKernel) {
  for (const GroupedGemmProblem& problem : problems()) {
    const Instance& chosen = choose_instance(problem);
    EXPECT_TRUE(matches(chosen, problem)) << chosen.name;
    EXPECT_EQ(chosen.config.wgrad, problem.pass == Pass::wgrad) << chosen.name;
    EXPECT_EQ(chosen.config.f32_out, problem.d_dtype == DType::f32) << chosen.name;
  }
}

TEST(ChooseInstance, TheStorageThatTheKernelReadsIsTheProblems) {
  // The contraction of forward is K, of dgrad N: the operand is contiguous along it or across it.
  const auto is_mn_major = [](Pass pass, WeightStorage weights) {
    return choose_instance(problem_of(pass, weights, DType::bf16, 8192)).config.b_mn_major;
  };
  EXPECT_FALSE(is_mn_major(Pass::forward, WeightStorage::enk));
  EXPECT_TRUE(is_mn_major(Pass::forward, WeightStorage::ekn));
  EXPECT_TRUE(is_mn_major(Pass::dgrad, WeightStorage::enk));
  EXPECT_FALSE(is_mn_major(Pass::dgrad, WeightStorage::ekn));
}

DeviceInfo hopper() {
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  device.compute_capability = 90;
  device.num_sms = 132;
  return device;
}

// A row's bits may not depend on how many rows come with it: vllm#36488. The mean chooses pairs
// or single CTAs, which sum in the same order (tests/device compares the bits), and nothing else;
// what is few is decided on the device, expert by expert.
TEST(ChooseInstance, TheNumberOfRowsChoosesPairsOrNoneAndNothingElse) {
  const auto alike = [](KernelConfig config) {
    config.pair = config.spread = false;  // who works on a tile, and when
    return config;
  };
  std::set<bool> pairs;
  for (const GroupedGemmProblem& problem : problems()) {
    GroupedGemmProblem other = problem;
    for (const std::int64_t rows : {0, 1, 16, 1024, 4096, 100'000, 10'000'000}) {
      other.max_rows = rows;
      const auto* taken =
          std::find_if(kInstances.begin(), kInstances.end(), [&](const Instance& i) {
            return takes(i, {other, hopper(), {}});
          });
      ASSERT_NE(taken, kInstances.end());
      EXPECT_EQ(alike(taken->config), alike(choose_instance(problem).config)) << rows;
      pairs.insert(taken->config.pair);
    }
  }
  EXPECT_EQ(pairs.size(), 2U) << "both are some problem's";
}

TEST(ChooseInstance, ChoosesSingleCtas) {
  for (const GroupedGemmProblem& problem : problems()) {
    EXPECT_FALSE(choose_instance(problem).config.pair);
  }
}

TEST(ChooseInstance, EveryCompiledKernelIsSomeonesChoice) {
  std::set<std::string_view> chosen;
  for (const GroupedGemmProblem& problem : problems()) {
    chosen.insert(choose_instance(problem).name);
  }
  for (const Instance& instance : kInstances) {
    // The expert names its own; pairs are for what takes() knows.
    const KernelConfig& c = instance.config;
    const bool product = is_product(c) && !c.pair;
    EXPECT_EQ(chosen.count(instance.name), product ? 1U : 0U) << instance.name;
  }
}

TEST(Pairs, PayForExpertsOfManyRowsOnTwoSms) {
  EXPECT_TRUE(pairs_pay(16 * kRowsForPairs, 16, 132));
  EXPECT_TRUE(pairs_pay(16 * kRowsForPairs + 15, 16, 2));
  EXPECT_FALSE(pairs_pay(16 * kRowsForPairs - 1, 16, 132));
  EXPECT_FALSE(pairs_pay(16 * kRowsForPairs, 16, 1));
  EXPECT_FALSE(pairs_pay(0, 1, 132));
}

using Regimes = std::vector<std::pair<std::int64_t, std::string>>;
void expect_regimes(const KernelConfig& config, const Regimes& expected) {
  for (const auto& [count, regime] : expected) EXPECT_EQ(regime_of(config, count), regime) << count;
}

TEST(Regime, FollowsTheRowsOfTheExpert) {
  expect_regimes(
      choose_instance(problem_of(Pass::forward, WeightStorage::enk, DType::bf16, 1024)).config,
      {{0, ""},
       {1, "64x128"},
       {64, "64x128"},
       {65, "128x256"},
       {128, "128x256"},
       {129, "128x256+64x128"},
       {192, "128x256+64x128"},
       {193, "128x256"},
       {256, "128x256"},
       {100'000, "128x256+64x128"}});
  const KernelConfig& weights =
      choose_instance(problem_of(Pass::wgrad, WeightStorage::enk, DType::bf16, 1024)).config;
  EXPECT_EQ(regime_of(weights, 1), "") << "one size of tile";
}

class SupportsGrouped : public ::testing::Test {
 protected:
  GroupedGemmProblem problem = problem_of(Pass::forward, WeightStorage::enk, DType::bf16, 1024);
  DeviceInfo device = hopper();
  PlanOptions options;

  Support ask(Strategy strategy = Strategy::grouped) const {
    return supports_grouped({problem, device, options}, strategy);
  }
  void expect_refusal(const std::string& part) const {
    const Support support = ask();
    EXPECT_FALSE(support);
    EXPECT_NE(support.reason.find(part), std::string::npos) << support.reason;
  }
};

TEST_F(SupportsGrouped, TakesWhatTheContractAsksFor) {
  EXPECT_TRUE(ask());
  EXPECT_EQ(ask().reason, "");
  for (const int experts : {1, 1025, 4096, kMaxExperts}) {
    problem.num_experts = experts;
    EXPECT_TRUE(ask()) << experts;
  }
  problem.max_rows = 525'312;
  problem.n = 8192;
  EXPECT_TRUE(ask());
  problem.max_rows = 0;
  EXPECT_TRUE(ask());
}

TEST_F(SupportsGrouped, NamesTheOtherDevice) {
  device.compute_capability = 100;
  expect_refusal("compute capability 9.0, this device has 10.0");
  device.compute_capability = 89;
  expect_refusal("has 8.9");
}

TEST_F(SupportsGrouped, NamesTheOtherStrategy) {
  problem.strategy = Strategy::host_loop;
  expect_refusal("grouped, not host_loop");
  EXPECT_TRUE(ask(Strategy::host_loop));
}

TEST_F(SupportsGrouped, NamesTheOtherFormat) {
  problem.format = Format::f32;
  problem.d_dtype = DType::f32;
  expect_refusal("bf16, not f32");
}

TEST_F(SupportsGrouped, NamesTheNumberOfExperts) {
  problem.num_experts = kMaxExperts + 1;
  expect_refusal("at most 8192 experts, not 8193");
}

TEST_F(SupportsGrouped, NamesTheNumberOfRows) {
  problem.max_rows = kRaggedRows;
  expect_refusal("fewer than 2^30 rows, not 1073741824");
}

TEST_F(SupportsGrouped, NamesTilesThatDoNotFit) {
  problem.max_rows = kRaggedRows - 1;
  problem.n = std::int64_t{1} << 20;
  expect_refusal("32-bit");
  problem.pass = Pass::wgrad;
  problem.max_rows = 1024;
  problem.num_experts = 8192;
  problem.n = problem.k = std::int64_t{1} << 18;
  expect_refusal("32-bit");
}

// Overlapping segments of wrong offsets have more tile rows than the buffer.
TEST_F(SupportsGrouped, CountsTheTilesOfWrongOffsetsToo) {
  problem.num_experts = 8192;
  problem.max_rows = 100'000'000;
  problem.n = 64;
  expect_refusal("8192 experts of 100000000 rows");
}

TEST(Takes, PairsWhereExpertsHaveManyRowsAndThereAreTwoSms) {
  struct Kernels {
    Pass pass;
    DType d_dtype;
    std::string_view single, pair;
  };
  const Kernels all[] = {
      {Pass::forward, DType::bf16, "bf16_rows_128x256_k", "bf16_rows_2x128x256_k"},
      {Pass::dgrad, DType::bf16, "bf16_rows_128x256_mn", "bf16_rows_2x128x256_mn"},
      {Pass::wgrad, DType::bf16, "bf16_wgrad_128x256", "bf16_wgrad_2x128x256"},
      {Pass::wgrad, DType::f32, "f32_wgrad_128x256", "f32_wgrad_2x128x256"},
      {Pass::forward, DType::f32, "f32_rows_128x256_k", "f32_rows_128x256_k"}};
  DeviceInfo device;
  for (const Kernels& kernels : all) {
    for (const int sms : {1, 2, 131, 132}) {
      device.num_sms = sms;
      for (const std::int64_t mean : {1, 1024, 2047, 2048, 100'000}) {
        const GroupedGemmProblem problem =
            problem_of(kernels.pass, WeightStorage::enk, kernels.d_dtype, mean * kExperts);
        std::string_view first;
        for (const Instance& instance : kInstances) {
          if (first.empty() && takes(instance, {problem, device, {}})) first = instance.name;
        }
        EXPECT_EQ(first, mean >= 2048 && sms > 1 ? kernels.pair : kernels.single)
            << mean << " rows per expert, " << sms << " SMs";
      }
    }
  }
}

TEST(Takes, SaysWhichKernelsAreThereToBeNamed) {
  DeviceInfo device;
  device.num_sms = 2;
  for (const Instance& instance : kInstances) {
    const KernelConfig& c = instance.config;
    const Pass pass = c.wgrad ? Pass::wgrad : Pass::forward;
    const GroupedGemmProblem few = problem_of(pass, WeightStorage::enk, DType::bf16, 1024);
    if (!matches(instance, few)) continue;
    PlanOptions options;
    const Support support = takes(instance, {few, device, options});
    EXPECT_EQ(support.ok, !c.pair) << instance.name;
    EXPECT_EQ(support.reason.empty(), support.ok);
    const char* const what = c.pair ? "pairs of CTAs" : "";
    EXPECT_NE(support.reason.find(what), std::string::npos) << support.reason;
    const char* const part = support.ok ? "" : "named";
    EXPECT_NE(support.reason.find(part), std::string::npos) << support.reason;
    options.implementation = implementation_name(instance);
    EXPECT_TRUE(takes(instance, {few, device, options})) << instance.name;
  }
}

TEST(Matches, SaysWhatAKernelIsCompiledFor) {
  const GroupedGemmProblem forward =
      problem_of(Pass::forward, WeightStorage::enk, DType::bf16, 1024);
  for (const Instance& instance : kInstances) {
    const Support support = matches(instance, forward);
    const KernelConfig& c = instance.config;
    std::string part;
    if (!is_product(c)) {
      part = "SwiGLU expert";
    } else if (c.wgrad) {
      part = "computes wgrad";
    } else if (c.f32_out) {
      part = "writes f32";
    } else if (c.b_mn_major) {
      part = "contraction is strided";
    }
    EXPECT_EQ(support.ok, part.empty()) << instance.name;
    EXPECT_NE(support.reason.find(part), std::string::npos) << support.reason;
    EXPECT_EQ(support.reason.empty(), support.ok);
  }
}

TEST(SupportsExpert, RefusesWhatTheKernelsDoNotHold) {
  ExpertMlpProblem fine{};
  fine.num_experts = 16;
  fine.max_rows = 1024;
  fine.d = 512;
  fine.h = 200;
  DeviceInfo device;
  device.compute_capability = 90;
  device.num_sms = 132;
  EXPECT_TRUE(supports_expert(fine, device));
  const auto refusal = [&](const auto& change) {
    ExpertMlpProblem problem = fine;
    DeviceInfo where = device;
    change(problem, where);
    const Support support = supports_expert(problem, where);
    EXPECT_FALSE(support);
    return support.reason;
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal([](auto& p, auto&) { p.strategy = Strategy::padded_bmm; }),
              HasSubstr("not padded_bmm"));
  EXPECT_THAT(refusal([](auto& p, auto&) { p.format = Format::f32; }), HasSubstr("not f32"));
  EXPECT_THAT(refusal([](auto& p, auto&) { p.num_experts = 8193; }), HasSubstr("8193"));
  EXPECT_THAT(refusal([](auto& p, auto&) { p.max_rows = 1 << 30; }), HasSubstr("1073741824"));
  EXPECT_THAT(refusal([](auto&, auto& d) { d.compute_capability = 80; }), HasSubstr("8.0"));
  EXPECT_THAT(refusal([](auto& p, auto&) {
                p.max_rows = 100'000'000;
                p.h = std::int64_t{1} << 28;
              }),
              HasSubstr("32-bit"));
  EXPECT_THAT(refusal([](auto& p, auto&) { p.d = p.h = 1 << 22; }), HasSubstr("32-bit"));
  EXPECT_THAT(refusal([](auto& p, auto&) {  // the down product's alone
                p.num_experts = 1;
                p.max_rows = 1 << 29;
                p.d = 1 << 18;
                p.h = 64;
              }),
              HasSubstr("32-bit"));
}

// A kernel in pairs counts when experts have many rows, or when it is named.
TEST(Candidates, PairsComeFirstWhenNamed) {
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  device.compute_capability = 90;
  device.num_sms = 132;
  const auto first = [&](std::int64_t rows, const PlanOptions& options) -> std::string {
    const GroupedGemmProblem problem =
        problem_of(Pass::forward, WeightStorage::enk, DType::bf16, rows);
    for (const Candidate& candidate : GroupedGemm::candidates(problem, device, options)) {
      if (candidate.support) return candidate.implementation;
    }
    return "";
  };
  EXPECT_EQ(first(64, {}), "cuda/sm90/bf16_rows_128x256_k");
  EXPECT_EQ(first(1 << 20, {}), "cuda/sm90/bf16_rows_2x128x256_k");
  PlanOptions named;
  named.implementation = "cuda/sm90/bf16_rows_2x128x256_k";
  EXPECT_EQ(first(64, named), *named.implementation);
  named.implementation = "cuda/sm90/bf16_rows_2x128x256_mn";
  EXPECT_EQ(first(64, named), "") << "it reads the other storage";
}

// cuBLAS adds zeros to experts without rows, which turns -0 into +0: the batch may not accumulate.
TEST(Candidates, PaddedBmmRefusesToAccumulate) {
  GroupedGemmProblem problem = problem_of(Pass::wgrad, WeightStorage::enk, DType::f32, 1024);
  problem.strategy = Strategy::padded_bmm;
  problem.accumulate = true;
  DeviceInfo device;
  device.device = {DeviceKind::cuda, 0};
  device.compute_capability = 90;
  device.num_sms = 132;
  bool found = false;
  for (const Candidate& candidate : GroupedGemm::candidates(problem, device)) {
    if (candidate.implementation == "cuda/cublas/padded_bmm") {
      found = true;
      EXPECT_FALSE(candidate.support);
      EXPECT_NE(candidate.support.reason.find("zeros"), std::string::npos)
          << candidate.support.reason;
    }
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace moesaic::backends::cuda::launch
