// SPDX-License-Identifier: Apache-2.0
// Who used the CPUs by hand, and which times are unsteady.
#include "tools/moesaic/cpu_load.hpp"

#include <gtest/gtest.h>

#include "tools/moesaic/run.hpp"

namespace moesaic::cli {
namespace {

constexpr const char* kStat =
    "cpu  60 0 0 100 0 0 0 0 0 0\n"
    "cpu0 10 1 2 40 7 3 4 5 9 9\n"
    "cpu1 50 0 0 60 0 0 0 0 0 0\n"
    "intr 1 2 3\n";

/// Two CPUs for a second, `own` of it by this process and `others` by the rest.
CpuLoad second(double own, double others) { return {2, 1, own + others, own}; }

RunCase timed(std::vector<double> samples, const CpuLoad& load = {}) {
  RunCase one;
  one.backend = "cpu";
  set_times(one, samples, load);
  return one;
}

TEST(CpuLoad, BusyIsAllButIdleAndWaiting) {
  const CpuLoad both = busy_of(kStat, 100, [](int) { return true; });
  EXPECT_EQ(both.cpus, 2);
  EXPECT_DOUBLE_EQ(both.busy_seconds, 0.75);
  const CpuLoad first = busy_of(kStat, 100, [](int cpu) { return cpu == 0; });
  EXPECT_EQ(first.cpus, 1);
  EXPECT_DOUBLE_EQ(first.busy_seconds, 0.25);
  EXPECT_EQ(busy_of("", 100, [](int) { return true; }).cpus, 0);
}

TEST(CpuLoad, OthersAreInTheWayOnlyWhereNoCpuIsIdle) {
  EXPECT_DOUBLE_EQ(second(1.5, 0.5).other_cpus(), 0.5);
  EXPECT_TRUE(second(1.5, 0.5).crowded());
  EXPECT_TRUE(second(1, 1).crowded());
  EXPECT_FALSE(second(1.9, 0.1).crowded());
  EXPECT_FALSE(second(0.5, 1).crowded());
  EXPECT_FALSE((CpuLoad{2, 0.05, 0.1, 0.06}.crowded())) << "four ticks say nothing";
  EXPECT_FALSE(CpuLoad{}.crowded());
}

TEST(CpuLoad, AMeterSeesThisProcess) {
  const CpuLoadMeter meter;
  double x = 0;
  CpuLoad load;
  while ((load = meter.stop()).wall_seconds < 0.02) x += load.wall_seconds;
  EXPECT_GT(x, 0);
  EXPECT_GT(load.own_seconds, 0);
  EXPECT_LT(load.own_seconds, 10);
}

TEST(Unsteady, WildSamplesOrCpusThatOthersTook) {
  EXPECT_FALSE(timed({1, 1.1, 1.2, 1.3, 1.4}, second(1.9, 0)).unsteady());
  EXPECT_TRUE(timed({1, 1, 1, 1, 9}).unsteady());
  EXPECT_TRUE(timed({100, 100, 100, 100, 100}, second(1, 1)).unsteady()) << "steady and wrong";
  RunCase one = timed({1, 1, 1, 1, 9});
  one.backend = "cuda";
  EXPECT_FALSE(one.unsteady());
  EXPECT_FALSE(RunCase{}.unsteady());
}

TEST(Unsteady, OneWarningNamesTheStrategies) {
  RunCase grouped = timed({1, 1, 1, 1, 1}), padded = timed({1, 1, 1, 1, 9}), loop = padded;
  padded.strategy = Strategy::padded_bmm;
  loop.strategy = Strategy::host_loop;
  EXPECT_EQ(unsteady_warning({grouped}), "");
  const std::string warning = unsteady_warning({grouped, padded, loop, padded});
  EXPECT_EQ(warning.rfind("unsteady times of padded_bmm, host_loop: another process", 0), 0U);
  EXPECT_NE(warning.find("OMP_WAIT_POLICY=passive"), std::string::npos);
  EXPECT_EQ(warning.find(" of 2)"), std::string::npos);
  loop.load = second(0.8, 1.2);
  EXPECT_NE(unsteady_warning({loop}).find("(1.2 of 2)"), std::string::npos);
}

TEST(Unsteady, IsMarkedInTheTableAndInCsv) {
  const std::vector<RunCase> cases = {timed({1, 1, 1, 1, 9})};
  RunFlags flags;
  flags.shape = {64, 32, nullptr};
  EXPECT_NE(run_text(flags, cases).find(" s unsteady"), std::string::npos);
  EXPECT_NE(run_csv(cases).find(",1\n"), std::string::npos);
}

TEST(Grouped, IsTheOneOfTheSameOperands) {
  RunCase grouped = timed({2}), loop = timed({3}), alone = timed({5});
  loop.strategy = alone.strategy = Strategy::host_loop;
  set_grouped({&loop, &grouped});
  set_grouped({&alone});
  EXPECT_EQ(loop.grouped_seconds, 2);
  EXPECT_EQ(grouped.grouped_seconds, 2);
  EXPECT_EQ(alone.grouped_seconds, 0);
}

}  // namespace
}  // namespace moesaic::cli
