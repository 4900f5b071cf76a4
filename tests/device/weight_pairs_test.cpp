// SPDX-License-Identifier: Apache-2.0
// wgrad where pairs of CTAs work together (all contractions about equally long), where they work
// apart, and around the border between the two, bit for bit. Every compiled kernel of wgrad runs.

#include <gtest/gtest.h>

#include <utility>

#include "device/case.hpp"

namespace moesaic::device_tests {
namespace {

Case make(const std::vector<std::int32_t>& counts, std::int64_t n, std::int64_t k) {
  Case c;
  c.offs = ends(counts);
  c.rows = c.offs.back() + 37;  // a tail full of NaN
  c.n = n;
  c.k = k;
  c.pass = Pass::wgrad;
  return c;
}

/// Both storages, both output types, written and added to.
void expect_all_exact(Case c) {
  for (const WeightStorage weights : {WeightStorage::enk, WeightStorage::ekn}) {
    for (const DType d_dtype : {DType::bf16, DType::f32}) {
      for (const bool accumulate : {false, true}) {
        c.weights = weights;
        c.d_dtype = d_dtype;
        c.accumulate = accumulate;
        expect_exact(c);
      }
    }
  }
}

struct Lengths {
  std::string name;
  std::vector<std::int32_t> counts;
};
void PrintTo(const Lengths& lengths, std::ostream* out) { *out << lengths.name; }

std::vector<Lengths> lengths() {
  return {
      // Together.
      {"equal", {256, 256, 256}},
      {"equal_odd_stages", {320, 320, 320, 320, 320}},
      {"equal_blocks_not_rows", {449, 512, 480, 450}},
      {"an_eighth_more", {512, 576, 513, 560}},
      {"one_stage_each", {1, 64, 33, 7}},
      {"two_stages_each", {65, 128, 100}},
      {"three_stages_each", {129, 192, 150}},
      {"one_expert", {777}},
      {"one_short_expert", {5}},
      {"all_empty", {0, 0, 0, 0}},
      // Apart; together where the empty experts have nothing added.
      {"equal_or_empty", {0, 256, 0, 256, 256, 0}},
      {"last_empty", {192, 192, 0}},
      // Apart.
      {"a_quarter_more", {512, 640, 512}},
      {"one_long", {64, 1500, 3, 128}},
      {"any", {129, 257, 1, 65, 385, 0, 193}},
  };
}

class WeightPairs : public OnDevice, public ::testing::WithParamInterface<Lengths> {};

// Lines for one CTA of the last pair alone, for both, and clipped ones; columns for both halves of
// what is shared, or for the first alone; panels in one box and one by one.
TEST_P(WeightPairs, OfAnyLinesAndColumnsAreExact) {
  for (const std::int64_t n : {8, 72, 128, 136, 256, 264, 392}) {
    for (const std::int64_t k : {8, 128, 136, 264, 392, 512}) {
      Case c = make(GetParam().counts, n, k);
      for (const DType d_dtype : {DType::bf16, DType::f32}) {
        c.d_dtype = d_dtype;
        expect_exact(c);
        c.weights = c.weights == WeightStorage::enk ? WeightStorage::ekn : WeightStorage::enk;
      }
    }
  }
}

// Many tiles for each pair, whole and halved, on numbers of SMs of which one may be idle.
TEST_P(WeightPairs, OfAnyNumberOfSmsAreExact) {
  for (const int num_sms : {1, 2, 3, 5, 8, 31, 0}) {
    Case c = make(GetParam().counts, 904, 776);
    c.num_sms = num_sms;
    expect_all_exact(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, WeightPairs, ::testing::ValuesIn(lengths()),
                         [](const auto& parameter) { return parameter.param.name; });

// Few and short, for compute-sanitizer.
class FewWeightPairs : public OnDevice, public ::testing::WithParamInterface<Lengths> {};
TEST_P(FewWeightPairs, TogetherAndApartAreExact) {
  for (const auto& [n, k] : {std::pair(264, 264), std::pair(392, 72)}) {
    Case c = make(GetParam().counts, n, k);
    for (const int num_sms : {2, 3}) {
      c.num_sms = num_sms;
      for (const DType d_dtype : {DType::bf16, DType::f32}) {
        c.d_dtype = d_dtype;
        c.accumulate = num_sms == 3;
        expect_exact(c);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Small, FewWeightPairs,
                         ::testing::Values(Lengths{"equal", {320, 320}},
                                           Lengths{"unequal", {320, 64, 130}},
                                           Lengths{"equal_or_empty", {128, 0, 128}},
                                           Lengths{"all_empty", {0, 0}}),
                         [](const auto& parameter) { return parameter.param.name; });

class WeightPairLaunches : public OnDevice {};

// What a launch leaves in the workspace, where CTAs took tiles in turns or from the queue, is what
// the next one begins with.
TEST_F(WeightPairLaunches, FollowOneAnotherTogetherAndApart) {
  const std::vector<std::vector<std::int32_t>> counts = {
      {300, 300, 300}, {900, 0, 0}, {300, 320, 280}, {0, 0, 0}, {1, 700, 199}, {256, 256, 256}};
  CaseOnDevice on(make({300, 300, 300}, 520, 392));
  const Queue queue;
  for (const std::string& implementation : on.implementations()) {
    SCOPED_TRACE(implementation);
    const GroupedGemm plan = on.plan(implementation);
    for (std::size_t i = 0; i < 3 * counts.size(); ++i) {
      on.prepare(ends(counts[i * 5 % counts.size()]), i, queue.get());
      for (int repeat = 0; repeat < 3; ++repeat) {
        on.poison(queue.get());
        on.execute(plan, queue.get());
        on.compare(queue.get());
      }
      ASSERT_EQ(on.differences(queue.get()), "") << i;
    }
  }
}

}  // namespace
}  // namespace moesaic::device_tests
