// SPDX-License-Identifier: Apache-2.0
// num_sms is a promise: a product that may use one thread starts no other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

std::int64_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// Exits 0 when executing with a limit of one thread started none.
[[noreturn]] void execute_on_one_thread(const Implementation& implementation, Pass pass,
                                        std::vector<std::int32_t> offs) {
  PlanOptions options;
  options.num_sms = 1;
  const std::int64_t before = threads_of_this_process();
  GroupedRun run(make_problem(pass, WeightStorage::enk, kBf16, 2, 400, 256, 256), std::move(offs));
  run.a.fill(1);
  run.b.fill(1);
  execute(run, implementation, options);
  std::_Exit(threads_of_this_process() == before ? 0 : 1);
}

class OneThread : public ::testing::TestWithParam<Implementation> {};

TEST_P(OneThread, StartsNoOther) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process each
  if (GetParam().name == "cpu/reference/grouped") {
    EXPECT_EXIT(execute_on_one_thread(GetParam(), Pass::forward, {100, 400}),
                ::testing::ExitedWithCode(0), "");
    return;
  }
  for (const Pass pass : kAllPasses) {
    EXPECT_EXIT(execute_on_one_thread(GetParam(), pass, {100, 400}), ::testing::ExitedWithCode(0),
                "")
        << name(pass);
    EXPECT_EXIT(execute_on_one_thread(GetParam(), pass, {100, 50}), ::testing::ExitedWithCode(0),
                "")
        << name(pass) << ", wrong offsets";
  }
}

INSTANTIATE_TEST_SUITE_P(All, OneThread, ::testing::ValuesIn(runnable()),
                         [](const auto& instance) { return test_name(instance.param.name); });

}  // namespace
}  // namespace moesaic::testing
