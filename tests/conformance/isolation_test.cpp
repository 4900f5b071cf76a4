// SPDX-License-Identifier: Apache-2.0
// What must never reach a result: rows past the last expert, neighbours, padding between rows, the
// old content of d. And what must not be touched.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "support/implementations.hpp"
#include "support/parameters.hpp"

namespace moesaic::testing {
namespace {

using Parameter = PassAndStorage;

class Isolation : public ::testing::TestWithParam<Parameter> {
 protected:
  [[nodiscard]] GroupedGemmProblem problem(Types types, const Counts& counts,
                                           std::int64_t rows) const {
    return make_problem(std::get<Pass>(GetParam()), std::get<WeightStorage>(GetParam()), types,
                        static_cast<std::int64_t>(counts.size()), rows, 48, 40);
  }
  [[nodiscard]] const Implementation& implementation() const {
    return std::get<Implementation>(GetParam());
  }
  [[nodiscard]] bool is_wgrad() const { return std::get<Pass>(GetParam()) == Pass::wgrad; }
};

class IsolationRows : public Isolation {};

/// One expert's rows and weights are NaN or infinite: its own results may be, no other.
TEST_P(Isolation, PoisonInOneExpertStaysThere) {
  const Counts counts = {13, 65, 1, 30, 6};
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::int64_t bad = 0; bad < 5; ++bad) {
      GroupedRun run(problem(kBf16, counts, total(counts)), ends(counts));
      fill_operands(run, 1, 0.5, 20);
      const Segment rows = run.segment(bad);
      run.a.fill_rows(0, rows.begin, rows.end, poison);
      if (is_wgrad()) {
        run.b.fill_rows(0, rows.begin, rows.end, poison);
      } else {
        run.b.fill_rows(bad, 0, run.b.rows(), poison);
      }
      execute(run, implementation());
      run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
        if (expert != bad) {
          ASSERT_EQ(run.result(expert, i, j), static_cast<double>(run.integer_sum(expert, i, j)))
              << "bad " << bad << ", expert " << expert << ": " << i << " " << j;
        } else {
          ASSERT_FALSE(std::isfinite(run.result(expert, i, j)));
        }
      });
    }
  }
}

/// Tail rows of every kind of garbage, for every distance between offs[-1] and M.
TEST_P(Isolation, TailRowsNeverReachAResult) {
  const float garbage[] = {std::numeric_limits<float>::quiet_NaN(),
                           -std::numeric_limits<float>::infinity(), 3e38F};
  for (const std::int64_t tail_rows : {1, 7, 8, 15, 64, 127, 300}) {
    for (const float value : garbage) {
      const Counts counts = {9, 0, 33};
      GroupedRun run(problem(kBf16, counts, total(counts) + tail_rows), ends(counts));
      fill_operands(run, 1, 0.5, 21);
      run.a.fill_rows(0, total(counts), run.problem.max_rows, value);
      if (is_wgrad()) {
        run.b.fill_rows(0, total(counts), run.problem.max_rows, value);
      }
      execute(run, implementation());
      ASSERT_EQ(integer_mismatch(run), "") << tail_rows << " rows of " << value;
    }
  }
}

/// All rows are tail rows.
TEST_P(Isolation, ABufferOfNothingButTail) {
  for (const Tail tail : {Tail::leave, Tail::zero}) {
    GroupedRun run(problem(kBf16, {0, 0}, 50), {0, 0});
    run.problem.tail = tail;
    if (!is_wgrad()) {
      fill_operands(run, 1, 0.5, 22);
    }
    const std::vector<std::byte> before = run.d.snapshot();
    EXPECT_FALSE(execute(run, implementation()));
    const bool writes = is_wgrad() || tail == Tail::zero;
    EXPECT_EQ(run.d.stray_change(before, [&](auto, auto, auto) { return writes; }), "");
    for (std::int64_t row = 0; writes && row < run.d.rows(); ++row) {
      ASSERT_EQ(run.d.bits(is_wgrad() ? 1 : 0, row, 5), 0u);
    }
  }
}

/// tail = zero writes +0 over NaN in every tail row and in no gap between rows.
TEST_P(IsolationRows, ZeroedTailWritesRowsOnly) {
  for (const Types types : kAllTypes) {
    const Counts counts = {10, 0, 3};
    GroupedRun run(problem(types, counts, 40), ends(counts), kScattered);
    run.problem.tail = Tail::zero;
    fill_operands(run, 1, 0.5, 23);
    const std::vector<std::byte> before = run.d.snapshot();
    execute(run, implementation());
    EXPECT_EQ(integer_mismatch(run), "");
    EXPECT_EQ(run.d.stray_change(before, [](auto, auto, auto) { return true; }), "");
    for (std::int64_t row = 13; row < 40; ++row) {
      for (std::int64_t column = 0; column < run.d.columns(); ++column) {
        ASSERT_EQ(run.d.bits(0, row, column), 0u);
      }
    }
  }
}

/// d full of NaN, infinities and huge values: never read unless accumulating.
TEST_P(Isolation, OldContentOfDIsNeverRead) {
  for (const Types types : kAllTypes) {
    for (const float old :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1.0F}) {
      const Counts counts = {20, 0, 1, 70};
      GroupedRun run(problem(types, counts, total(counts)), ends(counts));
      fill_operands(run, 1, 0.5, 24);
      run.d.fill(old);
      execute(run, implementation());
      ASSERT_EQ(integer_mismatch(run), "") << old;
      for (std::int64_t row = 0; is_wgrad() && row < run.d.rows(); ++row) {
        ASSERT_EQ(run.d.bits(1, row, 3), 0u) << "dw of the empty expert";
      }
    }
  }
}

/// Two executes in a row: the first leaves its NaN in whatever scratch there is.
TEST_P(Isolation, ScratchCarriesNothingOver) {
  const GroupedGemm gemm = plan(problem(kBf16, {30, 30}, 60), implementation());
  const HostWorkspace workspace(gemm.workspace_bytes());
  GroupedRun poisoned(gemm.problem(), {30, 60});
  poisoned.a.fill(std::numeric_limits<float>::quiet_NaN());
  poisoned.b.fill(std::numeric_limits<float>::quiet_NaN());
  gemm.execute(poisoned.args(), workspace.get(), Stream::cpu());
  GroupedRun clean(gemm.problem(), {2, 7});
  fill_operands(clean, 1, 0.5, 25);
  gemm.execute(clean.args(), workspace.get(), Stream::cpu());
  EXPECT_EQ(integer_mismatch(clean), "");
}

/// Operands are read only.
TEST_P(Isolation, OperandsKeepTheirBits) {
  const Counts counts = {20, 0, 50};
  GroupedRun run(problem(kBf16, counts, 90), ends(counts), kScattered);
  fill_operands(run, 1, 0.5, 26);
  const std::vector<std::byte> a = run.a.snapshot();
  const std::vector<std::byte> b = run.b.snapshot();
  const std::vector<std::int32_t> offs = run.offs;
  execute(run, implementation());
  EXPECT_TRUE(a == run.a.snapshot());
  EXPECT_TRUE(b == run.b.snapshot());
  EXPECT_EQ(offs, run.offs);
}

/// One buffer holds x and y side by side: their columns interleave in memory.
TEST_P(IsolationRows, ColumnsOfOneBuffer) {
  const Counts counts = {20, 0, 50};
  GroupedRun run(problem(kBf16, counts, 80), ends(counts));
  fill_operands(run, 1, 0.5, 27);
  const std::int64_t width = run.a.columns();
  HostTensor both(DType::bf16, 0, 80, width + run.d.columns());
  for (std::int64_t row = 0; row < 70; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      both.set(0, row, column, run.a.get(0, row, column));
    }
  }
  const std::vector<std::byte> before = both.snapshot();
  GroupedGemmArgs args = run.args();
  args.a.qdata = both.view();
  args.a.qdata.shape[1] = width;
  args.d = both.view();
  args.d.shape[1] = run.d.columns();
  args.d.data = static_cast<std::byte*>(args.d.data) + width * 2;
  const GroupedGemm gemm = plan(run.problem, implementation());
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(args, workspace.get(), Stream::cpu());
  EXPECT_EQ(both.stray_change(
                before, [&](auto, auto row, auto column) { return row < 70 && column >= width; }),
            "");
  run.for_each_result([&](std::int64_t expert, std::int64_t i, std::int64_t j) {
    ASSERT_EQ(both.get(0, i, width + j), static_cast<double>(run.integer_sum(expert, i, j)));
  });
}

/// Weights shared by all experts: an expert stride of 0 reads one matrix E times.
TEST_P(IsolationRows, WeightsSharedByStrideZero) {
  const Counts counts = {5, 0, 40};
  GroupedRun run(problem(kBf16, counts, 45), ends(counts));
  fill_operands(run, 1, 0.5, 28);
  for (std::int64_t expert = 1; expert < 3; ++expert) {
    for (std::int64_t row = 0; row < run.b.rows(); ++row) {
      for (std::int64_t column = 0; column < run.b.columns(); ++column) {
        run.b.set(expert, row, column, run.b.get(0, row, column));
      }
    }
  }
  GroupedGemmArgs args = run.args();
  args.b.qdata.stride[0] = 0;
  const GroupedGemm gemm = plan(run.problem, implementation());
  const HostWorkspace workspace(gemm.workspace_bytes());
  gemm.execute(args, workspace.get(), Stream::cpu());
  EXPECT_EQ(integer_mismatch(run), "");
}

INSTANTIATE_TEST_SUITE_P(All, Isolation,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::ValuesIn(kAllPasses),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);
INSTANTIATE_TEST_SUITE_P(All, IsolationRows,
                         ::testing::Combine(::testing::ValuesIn(runnable()),
                                            ::testing::Values(Pass::forward, Pass::dgrad),
                                            ::testing::ValuesIn(kAllStorages)),
                         pass_and_storage_name);

}  // namespace
}  // namespace moesaic::testing
