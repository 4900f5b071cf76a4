// SPDX-License-Identifier: Apache-2.0
// A capacity whose blocks no address space holds is refused by the plan, not by a wrapped size.
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

TEST(Padded, RefusesACapacityPastEveryMemory) {
  GroupedGemmProblem problem = make_problem(Pass::forward, WeightStorage::enk, kBf16, 1, 1, 8, 8);
  problem.strategy = Strategy::padded_bmm;
  problem.max_rows = (std::int64_t{1} << 31) - 1;
  problem.capacity = parse_capacity("1000000");
  for (const Pass pass : kAllPasses) {
    problem.pass = pass;
    problem.n = problem.k = 8;
    EXPECT_NO_THROW(GroupedGemm::plan(problem, cpu())) << name(pass);  // 64 PiB
    problem.n = std::int64_t{1} << 30;
    expect_error(ErrorCode::invalid_argument, {"capacity", "2^62 bytes"},
                 [&] { GroupedGemm::plan(problem, cpu()); });
    std::swap(problem.n, problem.k);
    expect_error(ErrorCode::invalid_argument, {"capacity", "2^62 bytes"},
                 [&] { GroupedGemm::plan(problem, cpu()); });
  }
}

}  // namespace
}  // namespace moesaic::testing
