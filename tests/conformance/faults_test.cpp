// SPDX-License-Identifier: Apache-2.0
// Wrong offsets: the record says what was wrong, experts with valid start and end are computed,
// nothing outside is touched, and the next execute is clean.
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kRows = 40;

struct FaultCase {
  std::vector<std::int32_t> offs;
  DeviceFault::Kind kind;
  int expert;
  std::int64_t value;
};

std::vector<FaultCase> fault_cases() {
  using Kind = DeviceFault::Kind;
  return {
      {{10, 5, 20, 40}, Kind::offs_not_monotonic, 1, 5},
      {{10, 20, 19, 40}, Kind::offs_not_monotonic, 2, 19},
      {{40, 0, 0, 40}, Kind::offs_not_monotonic, 1, 0},
      {{10, 20, 30, 29}, Kind::offs_not_monotonic, 3, 29},
      {{30, 20, 10, 0}, Kind::offs_not_monotonic, 1, 20},
      {{-1, 10, 20, 30}, Kind::offs_out_of_range, 0, -1},
      {{5, -7, 20, 30}, Kind::offs_out_of_range, 1, -7},
      {{5, 10, 20, -1}, Kind::offs_out_of_range, 3, -1},
      {{kLeast, kLeast, kLeast, kLeast}, Kind::offs_out_of_range, 0, kLeast},
      {{5, 10, 20, 41}, Kind::offs_out_of_range, 3, 41},
      {{41, 41, 41, 41}, Kind::offs_out_of_range, 0, 41},
      {{5, kMost, 20, 30}, Kind::offs_out_of_range, 1, kMost},
      {{kMost, kMost, kMost, kMost}, Kind::offs_out_of_range, 0, kMost},
      {{5, kMost, kLeast, 30}, Kind::offs_out_of_range, 1, kMost},
      // Two faults of different kinds: the lowest expert is kept, whichever kind it has.
      {{10, 5, 99, 40}, Kind::offs_not_monotonic, 1, 5},
      {{10, 99, 50, 5}, Kind::offs_out_of_range, 1, 99},
      {{0, 0, -5, 40}, Kind::offs_out_of_range, 2, -5},
      // Counts where offsets were wanted.
      {{16, 8, 64, 16}, Kind::offs_not_monotonic, 1, 8},
  };
}

std::string text(const std::vector<std::int32_t>& offs) {
  std::string list = "offs";
  for (const std::int32_t end : offs) {
    list += " " + std::to_string(end);
  }
  return list;
}

using Parameter = std::tuple<Implementation, Pass>;

class Faults : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] const Implementation& implementation() const {
    return std::get<Implementation>(GetParam());
  }
  [[nodiscard]] bool is_wgrad() const { return std::get<Pass>(GetParam()) == Pass::wgrad; }
  [[nodiscard]] GroupedGemmProblem problem() const {
    return make_problem(std::get<Pass>(GetParam()), WeightStorage::enk, kBf16, 4, kRows, 16, 24);
  }
  /// All rows get numbers here: with wrong offsets any of them may be someone's.
  void fill(GroupedRun& run) {
    fill_integers(run.a, 0, run.a.rows(), 1, 0.5, 1);
    fill_integers(run.b, 0, run.b.rows(), 1, 0.5, 2);
  }
  /// Rows that two experts claim may be either's; all others must be their expert's.
  void expect_valid_experts_right(const GroupedRun& run) {
    std::vector<int> claims(static_cast<std::size_t>(kRows), 0);
    for (std::int64_t expert = 0; expert < 4; ++expert) {
      for (std::int64_t row = run.segment(expert).begin; row < run.segment(expert).end; ++row) {
        ++claims[static_cast<std::size_t>(row)];
      }
    }
    run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
      const double got = run.result(expert, i, j);
      bool right = got == static_cast<double>(run.integer_sum(expert, i, j));
      if (!right && !is_wgrad() && claims[static_cast<std::size_t>(i)] > 1) {
        for (std::int64_t other = 0; other < 4; ++other) {
          const Segment rows = run.segment(other);
          right |= rows.begin <= i && i < rows.end &&
                   got == static_cast<double>(run.integer_sum(other, i, j));
        }
      }
      ASSERT_TRUE(right) << "expert " << expert << ": " << i << " " << j << " got " << got;
    });
  }
};
class FaultsWeights : public Faults {};

TEST_P(Faults, RecordedComputedAndContained) {
  for (const FaultCase& fault : fault_cases()) {
    for (const bool flag : {false, true}) {  // tail zero, or accumulating
      SCOPED_TRACE(text(fault.offs) + (flag ? ", zero or accumulate" : ""));
      GroupedRun run(problem(), fault.offs, kScattered);
      run.problem.accumulate = is_wgrad() && flag;
      run.problem.tail = flag && !is_wgrad() ? Tail::zero : Tail::leave;
      fill(run);
      if (run.problem.accumulate) {
        run.d.fill(0);
      }
      const std::vector<std::byte> before = run.d.snapshot();
      const GroupedGemm gemm = plan(run.problem, implementation());
      const HostWorkspace workspace(gemm.workspace_bytes());
      gemm.execute(run.args(), workspace.get(), Stream::cpu());

      const DeviceFault got = read_fault(workspace.get(), Stream::cpu());
      EXPECT_EQ(static_cast<int>(got.kind), static_cast<int>(fault.kind));
      EXPECT_EQ(got.expert, fault.expert);
      EXPECT_EQ(got.value, fault.value);
      EXPECT_FALSE(read_fault(workspace.get(), Stream::cpu())) << "not cleared by reading";

      expect_valid_experts_right(run);
      const std::vector<bool> routed = run.routed_rows();
      const std::int64_t last = fault.offs.back();
      const bool has_tail = 0 <= last && last <= kRows;
      EXPECT_EQ(run.d.stray_change(before,
                                   [&](std::int64_t expert, std::int64_t row, std::int64_t) {
                                     if (is_wgrad()) {
                                       return run.segment(expert).rows() > 0 ||
                                              !run.problem.accumulate;
                                     }
                                     const bool zeroed =
                                         run.problem.tail == Tail::zero && has_tail && row >= last;
                                     return routed[static_cast<std::size_t>(row)] || zeroed;
                                   }),
                "");
    }
  }
}

TEST_P(FaultsWeights, WgradOfAWrongSegmentIsThatOfAnEmptyOne) {
  GroupedRun run(problem(), {10, 5, 20, 99});
  fill(run);
  execute(run, implementation());
  for (const std::int64_t expert : {1, 3}) {
    for (std::int64_t row = 0; row < run.d.rows(); ++row) {
      for (std::int64_t column = 0; column < run.d.columns(); ++column) {
        ASSERT_EQ(run.d.bits(expert, row, column), 0u) << expert;
      }
    }
  }
}

TEST_P(Faults, SameBitsOnEveryRunEvenWhereSegmentsOverlap) {
  GroupedRun first(problem(), {30, 10, 40, 40});
  fill(first);
  execute(first, implementation());
  for (int repeat = 0; repeat < 5; ++repeat) {
    GroupedRun again(problem(), {30, 10, 40, 40});
    fill(again);
    execute(again, implementation());
    ASSERT_EQ(bit_difference(again.d, first.d), "");
  }
}

TEST_P(Faults, KeepsTheLowestOfSeveralExecutes) {
  const GroupedGemm gemm = plan(problem(), implementation());
  const HostWorkspace workspace(gemm.workspace_bytes());
  const auto execute_with = [&](const std::vector<std::int32_t>& offs) {
    GroupedRun run(problem(), offs);
    fill(run);
    gemm.execute(run.args(), workspace.get(), Stream::cpu());
  };
  execute_with({5, 10, 20, 41});
  execute_with({5, 10, 20, 40});  // a good one does not wipe the record
  execute_with({5, 4, 20, 40});
  execute_with({5, 10, -3, 40});
  const DeviceFault fault = read_fault(workspace.get(), Stream::cpu());
  EXPECT_EQ(fault.kind, DeviceFault::Kind::offs_not_monotonic);
  EXPECT_EQ(fault.expert, 1);
  EXPECT_EQ(fault.value, 4);
  execute_with({5, 10, 20, 40});
  EXPECT_FALSE(read_fault(workspace.get(), Stream::cpu()));
}

TEST_P(Faults, ALastOffsetOfExactlyMIsNoFault) {
  for (const std::int32_t last : {39, 40}) {
    GroupedRun run(problem(), {0, 10, 10, last});
    fill(run);
    EXPECT_FALSE(execute(run, implementation()));
    EXPECT_EQ(integer_mismatch(run), "");
  }
}

TEST_P(Faults, ABufferWithoutRows) {
  GroupedGemmProblem none = problem();
  none.max_rows = 0;
  GroupedRun run(none, {0, 0, 3, 3});
  const DeviceFault fault = execute(run, implementation());
  EXPECT_EQ(fault.kind, DeviceFault::Kind::offs_out_of_range);
  EXPECT_EQ(fault.expert, 2);
  EXPECT_EQ(fault.value, 3);
}

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& instance) {
  return test_name(std::get<Implementation>(instance.param).name + "_" +
                   std::string(name(std::get<Pass>(instance.param))));
}
INSTANTIATE_TEST_SUITE_P(All, Faults,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllPasses)),
                         parameter_name);
INSTANTIATE_TEST_SUITE_P(All, FaultsWeights,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::Values(Pass::wgrad)),
                         parameter_name);

}  // namespace
}  // namespace moesaic::testing
