// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tools/moesaic/report/fig40.hpp"

namespace moesaic::cli::report {
namespace {

using Json = nlohmann::ordered_json;

/// A row of `seconds` for one FLOP: throughput is 1 / seconds.
Json row(const Json& factors, double process, double order, double seconds, double i_h = 0) {
  return {{"experiment",
           {{"arm", "grouped"}, {"process", process}, {"order", order}, {"factors", factors}}},
          {"timing", {{"mean_s", seconds}}},
          {"work", {{"useful_flops", 1.0}}},
          {"load", {{"i_h", i_h}, {"counts", {1, 2}}}}};
}
Json control(double process, double order, double seconds) {
  return row({{"control", true}}, process, order, seconds);
}
Json measured(int histogram, double process, double order, double seconds, double i_h) {
  return row({{"control", false}, {"bin", 0}, {"histogram", histogram}, {"aligned", false}},
             process, order, seconds, i_h);
}
std::vector<std::size_t> all_of(const std::vector<Json>& rows) {
  std::vector<std::size_t> indices(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) indices[i] = i;
  return indices;
}

TEST(Fig40, DividesByTheMeanOfTheBracketingControlsOfTheSameProcess) {
  const std::vector<Json> rows = {control(0, 0, 1.0 / 4), measured(7, 0, 1, 1.0 / 3, 0.5),
                                  control(0, 2, 1.0 / 8), control(1, 0, 1.0 / 100)};
  const Json series = fig40_data(rows, all_of(rows));
  ASSERT_EQ(series.size(), 1U);
  ASSERT_EQ(series[0]["points"].size(), 1U);
  EXPECT_DOUBLE_EQ(series[0]["points"][0]["relative"].get<double>(), 3.0 / 6);
  EXPECT_EQ(series[0]["points"][0]["histogram"], 7);
}

TEST(Fig40, AtAnEndTheOnlyControlCounts) {
  const std::vector<Json> rows = {control(0, 5, 1.0 / 4), measured(0, 0, 1, 1.0 / 2, 0.5),
                                  measured(1, 0, 9, 1.0 / 3, 0.5)};
  const Json points = fig40_data(rows, all_of(rows))[0]["points"];
  EXPECT_DOUBLE_EQ(points[0]["relative"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(points[1]["relative"].get<double>(), 0.75);
}

TEST(Fig40, CountsRowsWithoutAControl) {
  const std::vector<Json> rows = {control(0, 0, 1), measured(0, 1, 1, 1, 0.5),
                                  measured(0, 0, 1, 1, 0.5)};
  const Json series = fig40_data(rows, all_of(rows))[0];
  EXPECT_EQ(series["without_control"], 1);
  EXPECT_EQ(series["points"][0]["rows"], 1);
}

TEST(Fig40, AveragesThePermutationsAndKeepsTheirRange) {
  const std::vector<Json> rows = {control(0, 0, 1), measured(3, 0, 1, 1.0 / 0.8, 0.5),
                                  measured(3, 0, 2, 1.0 / 0.6, 0.5)};
  const Json point = fig40_data(rows, all_of(rows))[0]["points"][0];
  EXPECT_DOUBLE_EQ(point["relative"].get<double>(), 0.7);
  EXPECT_DOUBLE_EQ(point["low"].get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(point["high"].get<double>(), 0.8);
}

TEST(Fig40, StatisticsNeedThreeHistograms) {
  std::vector<Json> rows = {control(0, 0, 1), measured(0, 0, 1, 1.0, 0.1),
                            measured(1, 0, 2, 1.1, 0.2)};
  EXPECT_TRUE(fig40_data(rows, all_of(rows))[0]["spearman"].is_null());
  rows.push_back(measured(2, 0, 3, 1.2, 0.3));
  const Json series = fig40_data(rows, all_of(rows))[0];
  EXPECT_DOUBLE_EQ(series["spearman"].get<double>(), -1);
  EXPECT_DOUBLE_EQ(series["interval"][0].get<double>(), -1);
}

}  // namespace
}  // namespace moesaic::cli::report
