// SPDX-License-Identifier: Apache-2.0
// The same product two thousand times: a pipeline that races gives other bits once in a while.
// Reports: DeepGEMM#343 and #365 (short groups in one CTA), cutlass#3165 (one hot expert).

#include <gtest/gtest.h>

#include <tuple>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

constexpr int kRepeats = 2000;

struct Racy {
  std::string name;
  std::vector<std::int32_t> counts;
  std::int64_t n, k;
};
void PrintTo(const Racy& racy, std::ostream* out) { *out << racy.name; }

std::vector<Racy> racy_shapes() {
  std::vector<std::int32_t> many_short;
  for (int i = 0; i < 128; ++i) many_short.push_back(1 + i * 7 % 40);
  return {
      {"many_short_groups", many_short, 264, 256},
      {"short_contractions", {128, 128, 256, 256, 128, 256, 256, 256}, 768, 512},
      {"one_hot", {3, 1, 1500, 2, 0, 1, 3, 38}, 520, 384},
      {"odd_tile_counts", {129, 257, 1, 65, 385, 0, 193}, 904, 328},
  };
}

class Repeats : public OnDevice, public ::testing::WithParamInterface<std::tuple<Pass, Racy>> {
 protected:
  void expect_equal_bits(int repeats) {
    const auto& [pass, racy] = GetParam();
    Case c;
    c.offs = ends(racy.counts);
    c.rows = c.offs.back();
    c.n = racy.n;
    c.k = racy.k;
    c.pass = pass;
    expect_exact(c);  // the first result is not just repeated, it is right
    CaseOnDevice on(c);
    const Queue queue;
    for (const std::string& implementation : on.implementations()) {
      SCOPED_TRACE(implementation);
      const GroupedGemm plan = on.plan(implementation);
      on.prepare_random(plan, queue.get());
      for (int i = 0; i < repeats; ++i) {
        on.poison(queue.get());  // a store that is left out shows too
        on.execute(plan, queue.get());
        on.compare(queue.get());
      }
      EXPECT_EQ(on.differences(queue.get()), "");
    }
  }
};

TEST_P(Repeats, TwoThousandRunsGiveEqualBits) { expect_equal_bits(kRepeats); }

INSTANTIATE_TEST_SUITE_P(Racy, Repeats,
                         ::testing::Combine(::testing::Values(Pass::forward, Pass::dgrad,
                                                              Pass::wgrad),
                                            ::testing::ValuesIn(racy_shapes())),
                         [](const auto& parameter) {
                           return std::string(name(std::get<Pass>(parameter.param))) + "_" +
                                  std::get<Racy>(parameter.param).name;
                         });

}  // namespace
}  // namespace moesaic::device_tests
