// SPDX-License-Identifier: Apache-2.0
// Which implementation is chosen and why the others are not.
#include "moesaic/grouped_gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "moesaic/build_info.hpp"
#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

GroupedGemmProblem small(Strategy strategy = Strategy::grouped) {
  GroupedGemmProblem problem =
      make_problem(Pass::forward, WeightStorage::enk, kBf16, 3, 20, 16, 24);
  problem.strategy = strategy;
  return problem;
}

bool onednn_works() {
  const std::vector<BackendStatus> all = backend_status();
  return std::any_of(all.begin(), all.end(),
                     [](const BackendStatus& one) { return one.name == "onednn" && one.ok; });
}

/// Yes without a reason, no with one, every name once.
void expect_reasons(const std::vector<Candidate>& candidates) {
  std::set<std::string> names;
  for (const Candidate& candidate : candidates) {
    EXPECT_TRUE(names.insert(candidate.implementation).second) << candidate.implementation;
    EXPECT_EQ(candidate.support.reason.empty(), candidate.support.ok) << candidate.implementation;
  }
}

TEST(Candidates, PlanTakesTheFirstThatCan) {
  for (const Strategy strategy : kAllStrategies) {
    for (const Pass pass : kAllPasses) {
      GroupedGemmProblem problem = small(strategy);
      problem.pass = pass;
      const std::vector<Candidate> candidates = GroupedGemm::candidates(problem, cpu());
      expect_reasons(candidates);
      const auto first = std::find_if(candidates.begin(), candidates.end(),
                                      [](const Candidate& one) { return one.support.ok; });
      if (first == candidates.end()) {
        expect_error(ErrorCode::unsupported, {"no implementation"},
                     [&] { GroupedGemm::plan(problem, cpu()); });
        continue;
      }
      EXPECT_EQ(GroupedGemm::plan(problem, cpu()).implementation(), first->implementation);
    }
  }
}

TEST(Candidates, TheOracleIsTheLastResort) {
  const std::vector<Candidate> candidates = GroupedGemm::candidates(small(), cpu());
  ASSERT_FALSE(candidates.empty());
  EXPECT_EQ(candidates.back().implementation, "cpu/reference/grouped");
  EXPECT_TRUE(candidates.back().support.ok);
  if (onednn_works()) {
    EXPECT_EQ(candidates.front().implementation, "cpu/onednn/grouped");
    EXPECT_GE(candidates.size(), 4u);
  }
}

TEST(Candidates, AskedForByName) {
  PlanOptions options;
  options.implementation = "cpu/reference/grouped";
  EXPECT_EQ(GroupedGemm::plan(small(), cpu(), options).implementation(), "cpu/reference/grouped");
  const std::vector<Candidate> candidates = GroupedGemm::candidates(small(), cpu(), options);
  expect_reasons(candidates);
  for (const Candidate& candidate : candidates) {
    EXPECT_EQ(candidate.support.ok, candidate.implementation == "cpu/reference/grouped");
  }
}

TEST(Candidates, AnUnknownNameIsAnErrorWithTheKnownOnes) {
  PlanOptions options;
  for (const char* unknown : {"cpu/nothing", "", "cpu/reference", "CPU/REFERENCE/GROUPED"}) {
    options.implementation = unknown;
    expect_error(ErrorCode::invalid_argument, {"implementation", "cpu/reference/grouped", unknown},
                 [&] { GroupedGemm::plan(small(), cpu(), options); });
    EXPECT_NO_THROW(expect_reasons(GroupedGemm::candidates(small(), cpu(), options)));
  }
}

/// Known, but not for this: the reason is in the message, and nothing else is taken instead.
TEST(Candidates, AKnownNameThatCannot) {
  PlanOptions options;
  options.implementation = "cpu/reference/grouped";
  expect_error(ErrorCode::unsupported, {"no implementation", "cpu/reference/grouped", "padded_bmm"},
               [&] { GroupedGemm::plan(small(Strategy::padded_bmm), cpu(), options); });
  expect_error(ErrorCode::unsupported, {"no implementation", "cpu/reference/grouped", "host_loop"},
               [&] { GroupedGemm::plan(small(Strategy::host_loop), cpu(), options); });
}

TEST(Candidates, BatchInvariantIsAskedForNotGuessed) {
  PlanOptions options;
  options.batch_invariant = true;
  EXPECT_EQ(GroupedGemm::plan(small(), cpu(), options).implementation(), "cpu/reference/grouped");
  expect_reasons(GroupedGemm::candidates(small(), cpu(), options));
  expect_error(ErrorCode::unsupported, {"no implementation"},
               [&] { GroupedGemm::plan(small(Strategy::host_loop), cpu(), options); });
}

TEST(Candidates, NeverThrowForAProblemThatCannotRun) {
  GroupedGemmProblem bad = small();
  bad.n = 13;
  const std::vector<Candidate> candidates = GroupedGemm::candidates(bad, cpu());
  ASSERT_FALSE(candidates.empty());
  for (const Candidate& candidate : candidates) {
    EXPECT_FALSE(candidate.support.ok);
    EXPECT_NE(candidate.support.reason.find("13"), std::string::npos);
  }
  EXPECT_NO_THROW(GroupedGemm::candidates(GroupedGemmProblem{}, cpu()));
  bad = small();
  bad.format = Format::mxfp8;
  EXPECT_NO_THROW(expect_reasons(GroupedGemm::candidates(bad, cpu())));
  PlanOptions options;
  options.num_sms = -1;
  EXPECT_NO_THROW(expect_reasons(GroupedGemm::candidates(small(), cpu(), options)));
  DeviceInfo nowhere;
  nowhere.device = {DeviceKind::cuda, 5};
  EXPECT_NO_THROW(expect_reasons(GroupedGemm::candidates(small(), nowhere)));
}

/// No implementation is asked about a problem that means nothing: tiles of no experts, widths of 0.
/// With a CUDA backend each of its names is listed all the same, on a machine without a GPU too.
TEST(Candidates, OfAMalformedProblemAreNamedButNotAsked) {
  DeviceInfo hopper;
  hopper.device = {DeviceKind::cuda, 0};
  hopper.compute_capability = 90;
  hopper.num_sms = 132;
  const GroupedGemmProblem nothing;
  ASSERT_EQ(nothing.num_experts, 0);
  for (const DeviceInfo& device : {hopper, cpu()}) {
    const std::vector<Candidate> candidates = GroupedGemm::candidates(nothing, device);
    EXPECT_EQ(candidates.size(), GroupedGemm::candidates(small(), device).size());
    expect_reasons(candidates);
    for (const Candidate& candidate : candidates) {
      EXPECT_FALSE(candidate.support.ok) << candidate.implementation;
      EXPECT_EQ(candidate.support.reason, "num_experts: expected 1 to 65536, got 0");
    }
  }
}

TEST(Plan, NumSmsIsALimit) {
  PlanOptions options;
  options.num_sms = -1;
  expect_error(ErrorCode::invalid_argument, {"num_sms", "-1"},
               [&] { GroupedGemm::plan(small(), cpu(), options); });
  for (const int limit : {0, 1, 2, 100'000}) {
    options.num_sms = limit;
    EXPECT_NO_THROW(GroupedGemm::plan(small(), cpu(), options));
  }
}

TEST(Plan, KeepsItsProblem) {
  GroupedGemmProblem problem = small();
  problem.tail = Tail::zero;
  const GroupedGemm gemm = GroupedGemm::plan(problem, cpu());
  EXPECT_EQ(gemm.problem().n, 16);
  EXPECT_EQ(gemm.problem().k, 24);
  EXPECT_EQ(gemm.problem().num_experts, 3);
  EXPECT_EQ(gemm.problem().tail, Tail::zero);
  EXPECT_GE(gemm.workspace_bytes(), kWorkspaceAlignment);
}

TEST(Plan, OnADeviceThatThisBuildCannotServe) {
  DeviceInfo nowhere;
  nowhere.device = {DeviceKind::cuda, 0};
  if (!GroupedGemm::candidates(small(), nowhere).empty()) {
    GTEST_SKIP() << "this build has a CUDA backend";
  }
  expect_error(ErrorCode::unsupported, {"no implementation", "cuda:0"},
               [&] { GroupedGemm::plan(small(), nowhere); });
}

TEST(PackWeights, Refusals) {
  GroupedRun run(small(), {5, 5, 18});
  PlanOptions options;
  options.implementation = "cpu/reference/grouped";
  const GroupedGemm reference = GroupedGemm::plan(run.problem, cpu(), options);
  expect_error(ErrorCode::unsupported, {"pack_weights", "cpu/reference/grouped"}, [&] {
    (void)reference.pack_weights({run.b.view(), {}}, Stream::cpu());
  });
  GroupedGemmProblem wgrad = small();
  wgrad.pass = Pass::wgrad;
  const GroupedGemm gradient = GroupedGemm::plan(wgrad, cpu());
  expect_error(ErrorCode::invalid_argument, {"w", "wgrad"}, [&] {
    (void)gradient.pack_weights({run.b.view(), {}}, Stream::cpu());
  });
  const PackedWeights none;
  EXPECT_EQ(none.implementation(), "");
  EXPECT_EQ(none.size_bytes(), 0);
}

}  // namespace
}  // namespace moesaic::testing
