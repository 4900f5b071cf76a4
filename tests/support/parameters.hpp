// SPDX-License-Identifier: Apache-2.0
// What most parametrized tests run over, and the names of their instances.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "support/implementations.hpp"

namespace moesaic::testing {

using PassAndStorage = std::tuple<Implementation, Pass, WeightStorage>;

inline std::string pass_and_storage_name(const ::testing::TestParamInfo<PassAndStorage>& instance) {
  return test_name(std::get<Implementation>(instance.param).name + "_" +
                   std::string(name(std::get<Pass>(instance.param))) + "_" +
                   std::string(name(std::get<WeightStorage>(instance.param))));
}

}  // namespace moesaic::testing
