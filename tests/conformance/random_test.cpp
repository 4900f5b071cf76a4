// SPDX-License-Identifier: Apache-2.0
// Random operands within the element-wise bound; the same bits on every run; rows that depend on
// nothing but themselves and their weights.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "support/implementations.hpp"
#include "support/parameters.hpp"

namespace moesaic::testing {
namespace {

using Parameter = PassAndStorage;

class Random : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] GroupedGemmProblem problem(Types types, const Counts& counts, std::int64_t n,
                                           std::int64_t k) const {
    return make_problem(std::get<Pass>(GetParam()), std::get<WeightStorage>(GetParam()), types,
                        static_cast<std::int64_t>(counts.size()), total(counts), n, k);
  }
  [[nodiscard]] const Implementation& implementation() const {
    return std::get<Implementation>(GetParam());
  }
};
class RandomGroupedStrategy : public Random {};
class RandomRows : public Random {};

TEST_P(Random, WithinTheElementBound) {
  const std::pair<Counts, std::pair<std::int64_t, std::int64_t>> cases[] = {
      {{51, 1, 0, 120, 33}, {96, 512}}, {{17, 17, 17, 16}, {256, 64}}, {{300, 12}, {64, 72}}};
  for (const Types types : kAllTypes) {
    for (const auto& [counts, size] : cases) {
      GroupedRun run(problem(types, counts, size.first, size.second), ends(counts));
      fill_random(run, 11);
      execute(run, implementation());
      EXPECT_EQ(bound_mismatch(run), "")
          << "n " << size.first << ", k " << size.second << ", d " << name(types.d_dtype);
    }
  }
}

/// The AVX-512 and AMX BF16 instructions take products below 2^-126 as zero, whatever the mode
/// bits say; oneDNN's BF16 products inherit that, the reference and F32 products do not.
double flushed_products(const GroupedRun& run, const Implementation& implementation) {
  if (run.problem.format != Format::bf16 ||
      implementation.name.find("onednn") == std::string::npos) {
    return 0;
  }
  const std::int64_t terms =
      run.problem.pass == Pass::wgrad ? run.problem.max_rows : run.a.columns();
  return std::ldexp(static_cast<double>(terms), -126);
}

/// One rounding also where results are near the ends of the range.
TEST_P(Random, WithinTheElementBoundAtTheEdgesOfTheRange) {
  const Counts counts = {9, 30};
  for (const Types types : kAllTypes) {
    for (const int exponent : {-60, -45, 60}) {
      GroupedRun run(problem(types, counts, 16, 24), ends(counts));
      fill_random(run, 12);
      for (HostTensor* tensor : {&run.a, &run.b}) {
        for (std::int64_t expert = 0; expert < std::max<std::int64_t>(1, tensor->experts());
             ++expert) {
          for (std::int64_t row = 0; row < tensor->rows(); ++row) {
            for (std::int64_t column = 0; column < tensor->columns(); ++column) {
              tensor->set(expert, row, column,
                          std::ldexp(tensor->get(expert, row, column), exponent));
            }
          }
        }
      }
      execute(run, implementation());
      const double slack = exponent == -60 ? flushed_products(run, implementation()) : 0;
      EXPECT_EQ(bound_mismatch(run, slack), "")
          << "2^" << exponent << ", d " << name(types.d_dtype);
    }
  }
}

TEST_P(Random, SameBitsOnEveryRun) {
  const Counts counts = {40, 0, 1, 200, 7};
  GroupedRun first(problem(kBf16ToF32, counts, 64, 136), ends(counts));
  fill_random(first, 13);
  execute(first, implementation());
  for (int repeat = 0; repeat < 3; ++repeat) {
    GroupedRun again(problem(kBf16ToF32, counts, 64, 136), ends(counts));
    fill_random(again, 13);
    execute(again, implementation());
    EXPECT_EQ(bit_difference(again.d, first.d), "");
  }
}

/// Other experts' rows and weights change; the row counts stay.
TEST_P(Random, OtherExpertsContentChangesNoBit) {
  const Counts counts = {40, 65, 9};
  GroupedRun first(problem(kBf16ToF32, counts, 64, 136), ends(counts));
  fill_random(first, 14);
  execute(first, implementation());
  GroupedRun other(problem(kBf16ToF32, counts, 64, 136), ends(counts));
  fill_random(other, 14);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::int64_t expert : {0, 2}) {
    const Segment rows = other.segment(expert);
    other.a.fill_rows(0, rows.begin, rows.end, nan);
    if (other.problem.pass == Pass::wgrad) {
      other.b.fill_rows(0, rows.begin, rows.end, nan);
    } else {
      other.b.fill_rows(expert, 0, other.b.rows(), nan);
    }
  }
  execute(other, implementation());
  first.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    if (expert == 1) {
      const std::int64_t axis = first.problem.pass == Pass::wgrad ? expert : 0;
      ASSERT_EQ(first.d.bits(axis, i, j), other.d.bits(axis, i, j)) << i << " " << j;
    } else {
      ASSERT_TRUE(std::isnan(other.result(expert, i, j)));
    }
  });
}

/// Other experts' counts change, and with them the start of this expert's rows.
TEST_P(RandomGroupedStrategy, OtherExpertsCountsChangeNoBitOfGroupedProducts) {
  const std::int64_t rows = 400;
  const auto run_with = [&](const Counts& counts) {
    GroupedGemmProblem grouped = problem(kBf16ToF32, counts, 64, 136);
    grouped.max_rows = rows;
    GroupedRun run(grouped, ends(counts));
    fill_random(run, 15);  // seeded per expert: expert 1 has the same rows each time
    execute(run, implementation());
    return run;
  };
  const GroupedRun first = run_with({40, 65, 9});
  for (const Counts& counts : {Counts{0, 65, 0}, Counts{301, 65, 1}, Counts{1, 65, 333}}) {
    const GroupedRun other = run_with(counts);
    const std::int64_t shift = other.segment(1).begin - first.segment(1).begin;
    const bool wgrad = first.problem.pass == Pass::wgrad;
    first.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
      if (expert == 1) {
        ASSERT_EQ(first.d.bits(wgrad ? 1 : 0, i, j),
                  other.d.bits(wgrad ? 1 : 0, wgrad ? i : i + shift, j))
            << i << " " << j;
      }
    });
  }
}

/// batch_invariant: not even the number of rows of its own expert matters to a row.
TEST_P(RandomRows, BatchInvariantRowsAreTheSameInAnyCompany) {
  PlanOptions options;
  options.batch_invariant = true;
  GroupedGemmProblem grouped = problem(kBf16ToF32, {400}, 64, 136);
  grouped.strategy = implementation().strategy;
  options.implementation = implementation().name;
  for (const Candidate& candidate : GroupedGemm::candidates(grouped, cpu(), options)) {
    if (candidate.implementation == implementation().name && !candidate.support) {
      EXPECT_NE(candidate.support.reason.find("batch invariant"), std::string::npos);
      GTEST_SKIP() << candidate.support.reason;
    }
  }
  GroupedRun all(grouped, {400});
  fill_random(all, 16);
  execute(all, implementation(), options);
  for (const std::int32_t few : {1, 2, 31, 32, 33, 255}) {
    GroupedRun some(grouped, {few});
    fill_random(some, 16);
    execute(some, implementation(), options);
    some.for_each_result([&](std::int64_t, std::int64_t i, std::int64_t j) {
      ASSERT_EQ(all.d.bits(0, i, j), some.d.bits(0, i, j)) << few << ": " << i << " " << j;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Random,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllPasses),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);
INSTANTIATE_TEST_SUITE_P(All, RandomGroupedStrategy,
                         ::testing::Combine(::testing::ValuesIn(runnable({Strategy::grouped})),
                                            ::testing::ValuesIn(kAllPasses),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);
INSTANTIATE_TEST_SUITE_P(All, RandomRows,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::Values(Pass::forward, Pass::dgrad),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);

}  // namespace
}  // namespace moesaic::testing
