// SPDX-License-Identifier: Apache-2.0
// Statistics from rows: controls that bracket, means over permutations and processes, the rank
// correlation; which rows are summarized together; the words of a fresh process.
#include "tools/moesaic/experiment/summary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "moesaic/planner.hpp"
#include "tools/moesaic/experiment/course.hpp"

namespace moesaic::cli::experiment {
namespace {

/// A row that ran at `tflops`.
StoredRow row_at(std::int64_t order, double tflops, std::map<std::string, std::string> factors) {
  StoredRow row;
  row.order = order;
  row.place = {"fig40", "full", "case " + std::to_string(order), "grouped", 0};
  row.factors = std::move(factors);
  row.device = "a device";
  row.useful_flops = 1e12 * tflops;
  row.mean_seconds = 1;
  return row;
}

StoredRow control(std::int64_t order, double tflops) {
  StoredRow row = row_at(order, tflops, {{"control", "true"}});
  row.counts = {4, 4, 4, 4};
  return row;
}

StoredRow measured(std::int64_t order, double tflops, std::int64_t histogram) {
  StoredRow row = row_at(order, tflops,
                         {{"control", "false"},
                          {"aligned", "false"},
                          {"bin", std::to_string(histogram)},
                          {"histogram", std::to_string(histogram)}});
  row.counts = {4 + histogram, 4, 4, 4 - histogram};
  return row;
}

TEST(Summary, ThroughputIsRelativeToTheControlsBeforeAndAfter) {
  // The device slows down by a quarter meanwhile; the mean of both controls is what stood between.
  const RowSet set = {"fig40",
                      "full",
                      "a device",
                      {control(0, 100), measured(1, 70, 1), measured(2, 35, 2), control(11, 75),
                       measured(12, 75, 3)}};
  const std::vector<HistogramMean> means = histogram_means(set, "grouped", false);
  ASSERT_EQ(means.size(), 3U);
  EXPECT_DOUBLE_EQ(means[0].relative, 0.8);
  EXPECT_DOUBLE_EQ(means[1].relative, 0.4);
  EXPECT_DOUBLE_EQ(means[2].relative, 1.0);  // one control alone
  EXPECT_DOUBLE_EQ(means[1].i_h, planner::measure_load(set.rows[2].counts).i_h);
  EXPECT_EQ(means[1].bin, 2);
  EXPECT_TRUE(histogram_means(set, "grouped", true).empty());
  EXPECT_TRUE(histogram_means(set, "dense", false).empty());
}

TEST(Summary, PermutationsAndProcessesAreAveragedWithTheirOwnControls) {
  StoredRow control_there = control(20, 50), there = measured(21, 45, 1);
  control_there.place.process = there.place.process = 1;
  const RowSet set = {
      "fig40",
      "full",
      "a device",
      {control(0, 100), measured(1, 70, 1), measured(2, 80, 1), control_there, there}};
  const std::vector<HistogramMean> means = histogram_means(set, "grouped", false);
  ASSERT_EQ(means.size(), 1U);
  EXPECT_DOUBLE_EQ(means[0].relative, (0.7 + 0.8 + 0.9) / 3);
}

TEST(Summary, CorrelationOfAMonotoneRelationIsOneWithoutWidth) {
  std::vector<HistogramMean> means;
  for (int i = 0; i < 30; ++i) means.push_back({i, i / 3, 0.03 * i, 1 - 0.001 * i * i});
  const Correlation falling = correlate(means);
  EXPECT_DOUBLE_EQ(falling.rho, -1);
  EXPECT_DOUBLE_EQ(falling.low, -1);
  EXPECT_DOUBLE_EQ(falling.high, -1);
  for (int i = 0; i < 30; i += 4) means[static_cast<std::size_t>(i)].relative = 1 + 0.01 * i;
  const Correlation noisy = correlate(means);
  EXPECT_LT(noisy.low, noisy.rho);
  EXPECT_LT(noisy.rho, noisy.high);
  EXPECT_GT(noisy.rho, -1);
  const Correlation again = correlate(means);
  EXPECT_EQ(again.low, noisy.low);
  EXPECT_EQ(again.high, noisy.high);
  EXPECT_TRUE(std::isnan(correlate({}).rho));
}

TEST(Summary, RowsAreApartByProtocolAndDeviceAndTheLastOfAPlaceCounts) {
  const std::string path = testing::TempDir() + "moesaic_summary_rows.jsonl";
  const auto line = [](const char* device, const char* protocol, const char* key, double seconds) {
    return std::string(R"({"schema":"moesaic.bench/1","device":{"name":")") + device +
           R"("},"git":{"sha":"0"},"problem":{"n":8,"k":8},"routing":{"offs":[2,3]},"timing":)" +
           R"({"mean_s":)" + std::to_string(seconds) +
           R"(,"unsteady":false},"work":{"useful_flops":1,"executed_flops":1},"clocks":null,)" +
           R"("experiment":{"name":"fig38","protocol":")" + protocol + R"(","case":")" + key +
           R"(","arm":"grouped","process":0,"order":0,"factors":{"rows":3}}})" + "\n";
  };
  std::ofstream(path) << line("one", "full", "a", 1) << line("two", "full", "a", 2)
                      << line("one", "reduced", "a", 3) << line("one", "full", "b", 4)
                      << line("one", "full", "a", 5);
  const std::vector<RowSet> sets = row_sets(ResultFile("--summarize", path), "fig38");
  ASSERT_EQ(sets.size(), 3U);
  ASSERT_EQ(sets[0].rows.size(), 2U);
  EXPECT_EQ(sets[0].rows[0].mean_seconds, 5);
  EXPECT_EQ(sets[0].rows[1].mean_seconds, 4);
  EXPECT_EQ(sets[0].rows[0].counts, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(sets[1].device, "two");
  EXPECT_EQ(sets[2].protocol, "reduced");
  std::remove(path.c_str());
}

TEST(Summary, CrossoverIsWhereGroupedStaysFaster) {
  RowSet set = {"fig38", "full", "a device", {}};
  // 64: slower, 128: faster, 256: slower again, 512 and 1024: faster.
  const double padded[] = {0.5, 1.5, 0.9, 1.1, 1.3};
  for (int i = 0; i < 5; ++i) {
    StoredRow row = row_at(i, 1, {{"rows", std::to_string(64 << i)}});
    row.place.experiment = "fig38";
    row.counts.assign(16, 4 << i);
    set.rows.push_back(row);
    row.place.arm = "padded_bmm";
    row.mean_seconds = padded[i];
    set.rows.push_back(row);
  }
  const std::string text = summary_text(set);
  EXPECT_NE(text.find("grouped is faster than padded_bmm from 512 rows on"), std::string::npos)
      << text;
  EXPECT_NE(text.find("1.500"), std::string::npos) << text;
}

TEST(Summary, RatiosToDenseArePairedByTrial) {
  RowSet set = {"table44", "full", "a device", {}};
  const auto add = [&](const char* arm, const char* partition, const char* trial, double tflops) {
    set.rows.push_back(row_at(std::ssize(set.rows), tflops,
                              {{"tokens", "256"}, {"partition", partition}, {"trial", trial}}));
    set.rows.back().place.arm = arm;
  };
  add("dense", "4", "0", 100);
  add("grouped", "4", "0", 50);
  add("dense", "4", "1", 400);
  add("grouped", "4", "1", 300);
  add("torch", "4", "1", 100);
  const std::string text = summary_text(set);
  EXPECT_NE(text.find("0.625"), std::string::npos) << text;  // not 350 / 500
  EXPECT_NE(text.find("torch: useful TFLOP/s"), std::string::npos) << text;
  EXPECT_NE(text.find("0.250"), std::string::npos) << text;
}

TEST(Summary, LoadsAreRelativeToTheBalancedOneOfTheirProcess) {
  RowSet set = {"fig72", "full", "a device", {}};
  for (std::int64_t process = 0; process < 2; ++process) {
    for (const auto& [load, tflops] :
         {std::pair{"balanced", 100.0}, std::pair{"single_spike", 90.0},
          std::pair{"three_hot", 80.0}}) {
      const double drift = process == 0 ? 1 : 0.5;
      StoredRow row = row_at(std::ssize(set.rows), drift * tflops,
                             {{"rows", "16384"}, {"pair", "i_max"}, {"load", load}});
      row.place.process = process;
      set.rows.push_back(row);
    }
  }
  const std::string text = summary_text(set);
  EXPECT_NE(text.find("90.0 % (90.0 % to 90.0 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("80.0 % (80.0 % to 80.0 %)"), std::string::npos) << text;
}

TEST(Summary, ThrottledRowsAreCountedAndKept) {
  RowSet set = {"fig73", "full", "a device", {}};
  for (int i = 0; i < 3; ++i) {
    set.rows.push_back(row_at(i, 100 + i, {{"rows_per_expert", "4096"}, {"trial", "0"}}));
    set.rows.back().sm_mhz = 1000;
    set.rows.back().throttled = i > 0;
  }
  const std::string text = summary_text(set);
  EXPECT_NE(text.find("2 of 3 rows ran throttled"), std::string::npos) << text;
  EXPECT_NE(text.find("0.101"), std::string::npos) << text;  // the median trial, per MHz
}

TEST(FreshProcess, TakesTheWordsButForProcessAndBudget) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_for_process({"fig40", "--budget", "3m", "--output", "x"}, 2, 1.5),
            (Words{"fig40", "--output", "x", "--process", "2", "--budget", "1.500s"}));
  EXPECT_EQ(words_for_process({"fig40", "--budget=3m"}, 0, std::nullopt),
            (Words{"fig40", "--process", "0"}));
}

}  // namespace
}  // namespace moesaic::cli::experiment
