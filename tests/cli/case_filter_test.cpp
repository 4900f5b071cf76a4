// SPDX-License-Identifier: Apache-2.0
// Cases by process and by values of their factors; refusals of what no case has.
#include "tools/moesaic/experiment/case_filter.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect_error.hpp"
#include "tools/moesaic/experiment/plan.hpp"

namespace moesaic::cli::experiment {
namespace {

using moesaic::testing::expect_error;

std::int64_t taken(const Design& design, const CaseFilter& filter) {
  return std::count_if(design.cases.begin(), design.cases.end(),
                       [&](const Case& one) { return filter.takes(one); });
}

TEST(CaseFilter, ReadsAFactorAndItsValues) {
  const FactorChoice choice = parse_choice("trial=0,12");
  EXPECT_EQ(choice.factor, "trial");
  EXPECT_EQ(choice.values, (std::vector<std::string>{"0", "12"}));
  for (const char* text : {"trial", "=0", "trial=", ""}) {
    expect_error(ErrorCode::invalid_argument, {"--only", "trial=0,2"}, [&] { parse_choice(text); });
  }
  expect_error(ErrorCode::invalid_argument, {"--only", "once"}, [] { parse_choice("a=1,1"); });
}

TEST(CaseFilter, EveryChoiceMustHold) {
  const Design design = make_design("table44", {});
  const CaseFilter trial = {-1, {parse_choice("trial=3")}},
                   tokens = {-1, {parse_choice("trial=3,4"), parse_choice("tokens=1,65536")}};
  EXPECT_EQ(taken(design, {}), 17 * 2 * 8);
  EXPECT_EQ(taken(design, trial), 17 * 2);
  EXPECT_EQ(taken(design, tokens), 2 * 2 * 2);
  for (const Case& one : design.cases) {
    if (!trial.takes(one)) continue;
    EXPECT_EQ(factor_text(one.factors, "trial"), "3");
  }
}

TEST(CaseFilter, CasesWithoutTheFactorStay) {
  // The controls of fig40 bracket what is left.
  const Design design = make_design("fig40", {});
  const CaseFilter tails = {-1, {parse_choice("aligned=false")}};
  EXPECT_EQ(taken(design, tails), 3 * (400 + 81));
  EXPECT_EQ(taken(design, {1, tails.only}), 400 + 81);
}

TEST(CaseFilter, WhatRunsKeepsItsPlaceInTheOrder) {
  const Design design = make_design("fig73", {});
  const CaseFilter last = {-1, {parse_choice("trial=7")}};
  const std::vector<Task> all = tasks_of(design, ResultFile(), Pace{}),
                          some = tasks_of(design, ResultFile(), Pace{}, last);
  ASSERT_EQ(some.size(), 4U);
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].order, all[all.size() - some.size() + i].order);
  }
  EXPECT_EQ(row_count(design, last), 12);
  EXPECT_EQ(row_count(design), 96);
}

TEST(CaseFilter, UnknownFactorsAndValuesAreRefused) {
  const Design design = make_design("table44", {});
  const auto require = [&](const char* choice) {
    return [&design, choice] { CaseFilter{-1, {parse_choice(choice)}}.require_known(design); };
  };
  expect_error(ErrorCode::invalid_argument, {"--only", "a factor of table44", "partition", "trail"},
               require("trail=0"));
  expect_error(ErrorCode::invalid_argument, {"--only", "0, 1, 2, 3, 4, 5, 6, 7", "\"8\""},
               require("trial=8"));
  expect_error(ErrorCode::invalid_argument, {"--process", "0 to 0", "\"5\""}, [&] {
    CaseFilter{5, {}}.require_known(design);
  });
  const Design histograms = make_design("fig40", {});
  expect_error(
      ErrorCode::invalid_argument, {"--only", "together", "control=false bin=0 histogram=99"}, [&] {
        CaseFilter{
            -1,
            {parse_choice("control=false"), parse_choice("bin=0"), parse_choice("histogram=99")}}
            .require_known(histograms);
      });
}

}  // namespace
}  // namespace moesaic::cli::experiment
