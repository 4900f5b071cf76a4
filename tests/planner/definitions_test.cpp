// SPDX-License-Identifier: Apache-2.0
// Every printed number has a line that defines it, and the line names what other tools call it.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "moesaic/planner.hpp"

namespace moesaic::planner {
namespace {

TEST(Definitions, EveryNameOfTheTablesIsDefinedOnce) {
  std::set<std::string_view> names;
  for (const std::string_view name : defined_names()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_FALSE(definition(name).empty()) << name;
    EXPECT_EQ(definition(name).find('\n'), std::string_view::npos) << name;
  }
  // The keys of `plan --json`.
  for (const char* key : {"dense",
                          "experts",
                          "invalid_slots",
                          "useful_rows",
                          "active_experts",
                          "effective_experts",
                          "i_h",
                          "i_max",
                          "max_rows",
                          "tile",
                          "padded_rows",
                          "padding_rows",
                          "padding_fraction",
                          "capacity",
                          "rho_pad",
                          "overflow_rows",
                          "mma_s",
                          "weight_s",
                          "launch_s",
                          "communication_s",
                          "aggregation"}) {
    EXPECT_EQ(names.count(key), 1u) << key;
  }
  EXPECT_TRUE(definition("throughput").empty());
  EXPECT_TRUE(definition("").empty());
}

TEST(Definitions, OtherToolsWords) {
  EXPECT_NE(definition("imbalance").find("TensorRT-LLM"), std::string_view::npos);
  EXPECT_NE(definition("balancedness").find("SGLang"), std::string_view::npos);
  EXPECT_NE(definition("effective_experts").find("DA-MoE"), std::string_view::npos);
}

}  // namespace
}  // namespace moesaic::planner
