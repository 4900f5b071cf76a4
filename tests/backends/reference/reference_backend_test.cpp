// SPDX-License-Identifier: Apache-2.0
// The oracle rounds once from double: sums that FP32 would round first must not go wrong.
#include "backends/reference/reference_backend.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

const Implementation kOracle{"cpu/reference/grouped", Strategy::grouped};
double two_to(int exponent) { return std::ldexp(1.0, exponent); }

struct Tie {
  std::vector<double> terms;
  double bf16, f32;
};

std::vector<Tie> ties() {
  const double one = 1.0;
  return {
      {{one, two_to(-8)}, 1.0, one + two_to(-8)},  // tie, to even
      {{one, two_to(-7), two_to(-8)}, one + two_to(-6), one + two_to(-7) + two_to(-8)},
      {{one, two_to(-8), two_to(-40)}, one + two_to(-7), one + two_to(-8)},  // above the tie
      {{one, two_to(-8), -two_to(-40)}, 1.0, one + two_to(-8)},              // below it
      {{one, two_to(-7), two_to(-8), -two_to(-40)},
       one + two_to(-7),
       one + two_to(-7) + two_to(-8)},
      {{-one, -two_to(-8), -two_to(-40)}, -one - two_to(-7), -one - two_to(-8)},
      {{one, two_to(-24)}, 1.0, 1.0},
      {{one, two_to(-24), two_to(-45)}, 1.0, one + two_to(-23)},
      {{two_to(40), one, -two_to(40)}, 1.0, 1.0},  // cancels exactly
      {{255 * two_to(120), two_to(118)}, 255 * two_to(120), 255 * two_to(120) + two_to(118)},
      {{255 * two_to(120), two_to(119)}, HUGE_VAL, 255 * two_to(120) + two_to(119)},
  };
}

/// The terms of each sum stand in x; the weights are 1.
TEST(Reference, RoundsOnceInForward) {
  for (const Types types : {kBf16, kBf16ToF32}) {
    const std::vector<Tie> all = ties();
    const auto rows = static_cast<std::int64_t>(all.size());
    GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, types, 1, rows, 8, 8),
                   {static_cast<std::int32_t>(rows)});
    run.a.fill(0);
    run.b.fill(1);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::vector<double>& terms = all[static_cast<std::size_t>(row)].terms;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        run.a.set(0, row, static_cast<std::int64_t>(i), terms[i]);
        ASSERT_EQ(run.a.get(0, row, static_cast<std::int64_t>(i)), terms[i]) << "not a BF16 value";
      }
    }
    execute(run, kOracle);
    for (std::int64_t row = 0; row < rows; ++row) {
      const Tie& tie = all[static_cast<std::size_t>(row)];
      EXPECT_EQ(run.d.get(0, row, 3), types.d_dtype == DType::bf16 ? tie.bf16 : tie.f32) << row;
    }
  }
}

/// Halves of BF16 values: 2^-127 + 2^-134 lies between two subnormals.
TEST(Reference, RoundsOnceAmongSubnormals) {
  GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, kBf16, 1, 2, 8, 8), {2});
  run.a.fill(0);
  run.b.fill(0.5);
  for (const std::int64_t row : {0, 1}) {
    run.a.set(0, row, 0, two_to(-126));
    run.a.set(0, row, 1, two_to(-133));
  }
  run.b.set(0, 5, 1, 0.5 + two_to(-7));  // a little more than half
  execute(run, kOracle);
  EXPECT_EQ(run.d.get(0, 0, 0), two_to(-127));
  EXPECT_EQ(run.d.get(0, 1, 5), two_to(-127) + two_to(-133));
}

TEST(Reference, RoundsOnceInWgradWithTheOldContent) {
  GroupedRun run(make_problem(Pass::wgrad, WeightStorage::enk, kBf16, 1, 2, 8, 8), {2});
  run.problem.accumulate = true;
  run.a.fill(0);
  run.b.fill(1);
  run.d.fill(1.0);
  run.a.set(0, 0, 0, two_to(-8));  // 1 + 2^-8 + 2^-40: just above a tie
  run.a.set(0, 1, 0, two_to(-40));
  run.a.set(0, 0, 1, two_to(-8));  // a tie
  execute(run, kOracle);
  EXPECT_EQ(run.d.get(0, 0, 0), 1.0 + two_to(-7));
  EXPECT_EQ(run.d.get(0, 1, 0), 1.0);
}

/// Not within FP32's reach: 4096 products whose errors would add up.
TEST(Reference, SumsInDouble) {
  GroupedRun run(make_problem(Pass::forward, WeightStorage::enk, kF32, 1, 1, 8, 4096), {1});
  run.b.fill(1);
  run.a.fill(two_to(-24));
  run.a.set(0, 0, 0, 1.0);  // in FP32 every later term would vanish against the 1
  execute(run, kOracle);
  EXPECT_EQ(run.d.get(0, 0, 0), 1.0 + 4095 * two_to(-24) + two_to(-24));
}

TEST(Reference, TakesEveryGroupedProblemOnACpu) {
  const backends::Backend& backend = backends::reference::backend();
  EXPECT_TRUE(backend.status().ok);
  EXPECT_EQ(backend.device_kind(), DeviceKind::cpu);
  ASSERT_EQ(backend.grouped_gemms().size(), 1u);
  for (const bool batch_invariant : {false, true}) {
    for (const Pass pass : kAllPasses) {
      const GroupedGemmProblem problem =
          make_problem(pass, WeightStorage::ekn, kF32, 4096, 1, 8, 8);
      PlanOptions options;
      options.batch_invariant = batch_invariant;
      EXPECT_TRUE(backend.grouped_gemms()[0]->supports({problem, cpu(), options}).ok);
    }
  }
}

}  // namespace
}  // namespace moesaic::testing
