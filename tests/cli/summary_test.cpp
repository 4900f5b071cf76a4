// SPDX-License-Identifier: Apache-2.0
// Statistics from rows: controls that bracket, means over permutations and processes, the rank
// correlation; which rows are summarized together; the words of a fresh process.
#include "tools/moesaic/experiment/summary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

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
           R"("},"git":{"sha":"0"},"problem":{"n":8,"k":8},)"
           R"("routing":{"seed":1,"offs":[2,3]},"timing":)" +
           R"({"mean_s":)" + std::to_string(seconds) +
           R"(,"unsteady":false},"work":{"useful_flops":1,"executed_flops":1},"clocks":null,)" +
           R"("check":{"elements":4,"mismatches":0},)" +
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

TEST(Summary, AnotherLimitThanThePowerCapIsCountedApart) {
  RowSet set = {"fig73", "full", "a device", {}};
  set.rows.push_back(row_at(0, 100, {{"rows_per_expert", "4096"}, {"trial", "0"}}));
  set.rows.back().looks = 200;
  set.rows.back().power_capped = 199;
  set.rows.back().otherwise_limited = 1;
  EXPECT_NE(summary_text(set).find("The power cap held the clock down in 99.5 % of 200 looks, "
                                   "another limit in 0.5 %."),
            std::string::npos)
      << summary_text(set);
}

TEST(Summary, ClockAndPowerOfATrialAreMeansOfItsLooks) {
  const std::string path = testing::TempDir() + "moesaic_summary_looks.jsonl";
  std::ofstream(path)
      << R"({"schema":"moesaic.bench/1","device":{"name":"one"},"git":{"sha":"0"},)"
         R"("check":{"elements":4,"mismatches":0},)"
         R"("problem":{"n":8,"k":8},"routing":{"seed":1,"offs":[2,3]},)"
         R"("timing":{"mean_s":1,"unsteady":false},)"
         R"("work":{"useful_flops":1,"executed_flops":1},"clocks":{"throttled":true,)"
         R"("sm_mhz":{"median":1},"power_w":1},"telemetry":{"sm_mhz":[1000,1000,1600],)"
         R"("power_w":[700,null,600],"reasons":[0,4,68]},"experiment":{"name":"fig73",)"
         R"("protocol":"full","case":"a","arm":"grouped","process":0,"order":0,)"
         R"("factors":{"rows_per_expert":1,"trial":0}}})"
      << "\n";
  const ResultFile file("--summarize", path);
  ASSERT_EQ(file.rows().size(), 1U);
  const StoredRow& row = file.rows().front();
  EXPECT_DOUBLE_EQ(row.sm_mhz, 1200);
  EXPECT_DOUBLE_EQ(row.power_w, 650);
  EXPECT_EQ(row.looks, 3);
  EXPECT_EQ(row.power_capped, 2);
  EXPECT_EQ(row.otherwise_limited, 1);  // 64: hardware thermal slowdown
  std::remove(path.c_str());
}

TEST(SummaryJson, SaysWhatTheTextSays) {
  using Json = nlohmann::json;
  RowSet set = {"table44", "reduced", "a device", {}};
  const auto add = [&](const char* arm, const char* trial, double tflops) {
    set.rows.push_back(row_at(std::ssize(set.rows), tflops,
                              {{"tokens", "256"}, {"partition", "4"}, {"trial", trial}}));
    set.rows.back().place.arm = arm;
  };
  add("dense", "0", 100);
  add("grouped", "0", 50);
  add("dense", "1", 400);
  add("grouped", "1", 300);
  set.rows.back().throttled = true;
  const std::string line = summary_json(set);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const Json json = Json::parse(line);
  EXPECT_EQ(json.at("schema"), "moesaic.experiment_summary/1");
  EXPECT_EQ(json.at("experiment"), "table44");
  EXPECT_EQ(json.at("protocol"), "reduced");
  EXPECT_EQ(json.at("rows"), 4);
  EXPECT_EQ(json.at("throttled"), 1);
  const Json& point = json.at("figures").at("arms").at("grouped").at(0);
  EXPECT_EQ(point.at("tokens"), 256);
  EXPECT_DOUBLE_EQ(point.at("dense_tflops").get<double>(), 250);
  const Json& four = point.at("partitions").at(0);
  EXPECT_EQ(four.at("experts"), 4);
  EXPECT_EQ(four.at("trials"), 2);
  EXPECT_DOUBLE_EQ(four.at("over_dense").get<double>(), 0.625);
  EXPECT_TRUE(point.at("partitions").at(1).at("over_dense").is_null());  // eight experts: no rows
}

TEST(SummaryJson, HistogramsHaveTheirMediansAndCorrelation) {
  RowSet set = {"fig40", "full", "a device", {control(0, 100)}};
  for (std::int64_t i = 1; i <= 3; ++i) {
    set.rows.push_back(measured(i, 100 - 10.0 * static_cast<double>(i), i));
  }
  const nlohmann::json json = nlohmann::json::parse(summary_json(set));
  const nlohmann::json& arm = json.at("figures").at("arms").at("grouped");
  EXPECT_TRUE(arm.at("whole_tiles").is_null());
  EXPECT_DOUBLE_EQ(arm.at("tails").at("spearman").at("rho").get<double>(), -1);
  EXPECT_EQ(arm.at("tails").at("spearman").at("resamples"), kResamples);
  EXPECT_EQ(arm.at("tails").at("histograms").size(), 3U);
  EXPECT_EQ(arm.at("tails").at("bins").at(1).at("bin"), 2);
  EXPECT_DOUBLE_EQ(arm.at("tails").at("bins").at(1).at("median").get<double>(), 0.8);
}

TEST(SummaryJson, CrossoverIsNullWhereThereIsNone) {
  RowSet set = {"fig71", "full", "a device", {}};
  for (const auto& [arm, seconds] : {std::pair{"grouped", 1.0}, std::pair{"padded_bmm", 0.5}}) {
    StoredRow row = row_at(0, 1, {{"rows", "64"}});
    row.counts.assign(16, 4);
    row.place.arm = arm;
    row.mean_seconds = seconds;
    set.rows.push_back(row);
  }
  nlohmann::json figures = nlohmann::json::parse(summary_json(set)).at("figures");
  EXPECT_TRUE(figures.at("grouped_faster_from").is_null());
  EXPECT_DOUBLE_EQ(figures.at("sizes").at(0).at("padded_over_grouped").get<double>(), 0.5);
  EXPECT_EQ(figures.at("sizes").at(0).at("rows_per_expert"), 4);
  set.rows.back().mean_seconds = 2;
  figures = nlohmann::json::parse(summary_json(set)).at("figures");
  EXPECT_EQ(figures.at("grouped_faster_from"), 64);
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
