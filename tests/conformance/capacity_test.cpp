// SPDX-License-Identifier: Apache-2.0
// padded_bmm: rows beyond the capacity are computed and reported under both rules; host_loop and
// padded_bmm give what grouped gives.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

struct Overflow {
  const char* capacity;
  Counts counts;
  std::int64_t max_rows;
  std::int64_t c;  ///< Worked out by hand from the rule.
  std::int64_t overflow_rows;
};

std::vector<Overflow> overflows() {
  return {
      {"1:ceil_mean", {1, 4, 3, 2}, 10, 3, 1},  // ceil(10 / 4)
      {"1.25", {1, 4, 3, 2}, 10, 4, 0},         // ceil(12.5 / 4)
      {"1", {10, 0, 0, 0}, 10, 3, 7},
      {"1", {10, 0, 0, 0}, 40, 10, 0},  // the buffer counts, not the routing
      {"0.5", {16, 16, 0, 0}, 32, 4, 24},
      {"0.000001", {7, 9}, 16, 1, 6 + 8},
      {"1:eight_row:1", {9, 0, 1, 22}, 32, 8, 1 + 14},    // 8 * ceil(8 / 8)
      {"1.1:eight_row:1", {9, 0, 1, 22}, 32, 8, 1 + 14},  // floor(8.8) = 8
      {"1.125:eight_row:1", {9, 0, 1, 22}, 32, 16, 6},    // floor(9) = 9 -> 16
      {"1:eight_row:4", {33, 0, 1, 30}, 64, 32, 1},       // 4 * 8 * ceil(floor(4) / 8)
      {"0.01:eight_row:2", {5, 3}, 8, 0, 8},              // floor(0.02) = 0: nothing is reserved
      {"100", {0, 40, 0}, 40, 1334, 0},
  };
}

using Parameter = std::tuple<Implementation, Pass>;
class Padded : public ::testing::TestWithParam<Parameter> {};

TEST_P(Padded, OverflowIsComputedAndReported) {
  const auto& [implementation, pass] = GetParam();
  for (const WeightStorage storage : kAllStorages) {
    for (const bool accumulate : {false, true}) {
      if (accumulate && pass != Pass::wgrad) {
        continue;
      }
      for (const Overflow& overflow : overflows()) {
        SCOPED_TRACE(std::string(overflow.capacity) + (accumulate ? " accumulating" : ""));
        GroupedRun run(
            make_problem(pass, storage, kBf16, static_cast<std::int64_t>(overflow.counts.size()),
                         overflow.max_rows, 16, 24),
            ends(overflow.counts), kScattered);
        run.problem.capacity = parse_capacity(overflow.capacity);
        run.problem.accumulate = accumulate;
        ASSERT_EQ(capacity_rows(run.problem.capacity, overflow.max_rows, run.problem.num_experts),
                  overflow.c);
        fill_operands(run, 1, 0.5, 30);
        if (accumulate) {
          run.d.fill(5);
        }
        const GroupedGemm gemm = plan(run.problem, implementation);
        const HostWorkspace workspace(gemm.workspace_bytes());
        gemm.execute(run.args(), workspace.get(), Stream::cpu());
        EXPECT_EQ(integer_mismatch(run, accumulate ? 5 : 0), "");
        EXPECT_EQ(read_overflow_rows(workspace.get(), Stream::cpu()), overflow.overflow_rows);
        EXPECT_FALSE(read_fault(workspace.get(), Stream::cpu()));
      }
    }
  }
}

TEST_P(Padded, ReportsTheLastExecute) {
  const auto& [implementation, pass] = GetParam();
  GroupedGemmProblem problem = make_problem(pass, WeightStorage::enk, kBf16, 2, 20, 16, 24);
  problem.capacity = parse_capacity("1");
  const GroupedGemm gemm = plan(problem, implementation);
  const HostWorkspace workspace(gemm.workspace_bytes());
  const auto overflow_of = [&](const std::vector<std::int32_t>& offs) {
    GroupedRun run(gemm.problem(), offs);
    fill_operands(run, 1, 0.5, 31);
    gemm.execute(run.args(), workspace.get(), Stream::cpu());
    return read_overflow_rows(workspace.get(), Stream::cpu());
  };
  EXPECT_EQ(overflow_of({17, 20}), 7);
  EXPECT_EQ(overflow_of({0, 20}), 10);
  EXPECT_EQ(overflow_of({10, 20}), 0);
  EXPECT_EQ(overflow_of({99, 20}), 0);  // the faulty expert is empty, and so is the next
}

/// The record is of the last padded_bmm execute: other strategies in the same workspace keep it.
TEST_P(Padded, OtherStrategiesKeepTheRecord) {
  const auto& [implementation, pass] = GetParam();
  GroupedGemmProblem problem = make_problem(pass, WeightStorage::enk, kBf16, 2, 20, 16, 24);
  problem.capacity = parse_capacity("1");
  const GroupedGemm padded = plan(problem, implementation);
  const HostWorkspace workspace(padded.workspace_bytes());
  GroupedRun run(padded.problem(), {17, 20});
  fill_operands(run, 1, 0.5, 31);
  padded.execute(run.args(), workspace.get(), Stream::cpu());
  for (const Implementation& other : runnable({Strategy::grouped, Strategy::host_loop})) {
    const GroupedGemm exact = plan(problem, other);
    ASSERT_LE(exact.workspace_bytes(), padded.workspace_bytes());
    exact.execute(run.args(), workspace.get(), Stream::cpu());
    EXPECT_EQ(read_overflow_rows(workspace.get(), Stream::cpu()), 7) << other.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Padded,
                         ::testing::Combine(::testing::ValuesIn(runnable({Strategy::padded_bmm})),
                                            ::testing::ValuesIn(kAllPasses)),
                         [](const auto& instance) {
                           return test_name(std::get<0>(instance.param).name + "_" +
                                            std::string(name(std::get<1>(instance.param))));
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Padded);

/// All strategies on the same random operands: within the bound of one another's reference, and on
/// integers equal to the last bit of zero's sign.
TEST(Strategies, SameBitsOnIntegers) {
  for (const Pass pass : kAllPasses) {
    for (const WeightStorage storage : kAllStorages) {
      const Counts counts = {33, 0, 1, 64, 20};
      const GroupedGemmProblem problem =
          make_problem(pass, storage, kBf16, 5, total(counts), 64, 72);
      GroupedRun want(problem, ends(counts));
      fill_operands(want, 1, 0.5, 32);
      execute(want, {"cpu/reference/grouped", Strategy::grouped});
      for (const Implementation& implementation : runnable()) {
        GroupedRun run(problem, ends(counts));
        fill_operands(run, 1, 0.5, 32);
        execute(run, implementation);
        EXPECT_EQ(bit_difference(run.d, want.d), "") << implementation.name;
      }
    }
  }
}

}  // namespace
}  // namespace moesaic::testing
