// SPDX-License-Identifier: Apache-2.0
// Groups of processes, as far as one process without a peer can tell: what is refused, and why.
#include "moesaic/expert_parallel_group.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "moesaic/build_info.hpp"
#include "moesaic/expert_parallel.hpp"
#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

/// Nobody is here.
class Nowhere final : public Rendezvous {
 public:
  void set(const std::string& /*key*/, const std::string& /*value*/) override {}
  std::string get(const std::string& key, std::chrono::milliseconds /*timeout*/) override {
    throw Error(ErrorCode::device_failure, "nobody has set " + key);
  }
};

NvshmemGroupOptions good_options() {
  NvshmemGroupOptions options;
  options.rank = 1;
  options.num_ranks = 2;
  options.rendezvous = std::make_shared<Nowhere>();
  return options;
}

template <class Change>
void expect_refused(std::string_view name, const Change& change) {
  NvshmemGroupOptions options = good_options();
  change(options);
  expect_error(ErrorCode::invalid_argument, {name},
               [&] { static_cast<void>(ExpertParallelGroup::nvshmem(options)); });
}

TEST(NvshmemGroup, OptionsAreRefusedByName) {
  using Options = NvshmemGroupOptions;
  for (const int ranks : {0, -1, 1025}) {
    expect_refused("num_ranks", [&](Options& o) { o.num_ranks = ranks; });
  }
  for (const int rank : {-1, 2}) expect_refused("rank", [&](Options& o) { o.rank = rank; });
  expect_refused("device", [](Options& o) { o.device = {}; });
  expect_refused("device", [](Options& o) { o.device.index = -1; });
  expect_refused("rendezvous", [](Options& o) { o.rendezvous = nullptr; });
  expect_refused("heap_bytes", [](Options& o) { o.heap_bytes = 0; });
  for (const double seconds : {0.0, -1.0, 1e9, std::nan("")}) {
    expect_refused("timeout_seconds", [&](Options& o) { o.timeout_seconds = seconds; });
  }
}

TEST(NvshmemGroup, SaysWhyItIsNotThere) {
  if (build_info().has_nvshmem) GTEST_SKIP() << "this build has NVSHMEM";
  try {
    static_cast<void>(ExpertParallelGroup::nvshmem(good_options()));
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("no expert parallelism between GPUs"),
              std::string::npos)
        << error.what();
  }
}

TEST(NvshmemGroup, WithoutAPeerOrADeviceItFails) {
  if (!build_info().has_nvshmem) GTEST_SKIP() << "this build has no NVSHMEM";
  try {
    static_cast<void>(ExpertParallelGroup::nvshmem(good_options()));
    FAIL() << "expected a failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failure) << error.what();
  }
}

TEST(ExpertParallel, CandidatesSayWhichGroupsTheyServe) {
  ExpertParallelProblem problem;
  problem.num_experts = 4;
  problem.topk = 1;
  problem.max_tokens = 8;
  problem.d = 8;
  const auto candidates = ExpertParallel::candidates(problem, ExpertParallelGroup::simulated(2));
  ASSERT_EQ(candidates.size(), build_info().has_nvshmem ? 2U : 1U);
  EXPECT_EQ(candidates.back().implementation, "cpu/reference/rowwise");
  EXPECT_TRUE(candidates.back().support);
  if (build_info().has_nvshmem) {
    EXPECT_EQ(candidates.front().implementation, "cuda/nvshmem/rowwise");
    EXPECT_FALSE(candidates.front().support);
    EXPECT_NE(candidates.front().support.reason.find("simulated"), std::string::npos);
  }
}

}  // namespace
}  // namespace moesaic::testing
