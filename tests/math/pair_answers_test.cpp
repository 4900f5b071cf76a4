// SPDX-License-Identifier: Apache-2.0
// What CTA 0 of a pair passes on, as a model whose CTAs step in random order and whose words arrive
// late: the other reads the same answers, and nobody is stuck. Without the word back it fails.
#include "math/pair_answers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace moesaic::math {
namespace {

using Answers = PairAnswers;

static_assert(Answers::taken(Answers::word(1, 0)) == 0);
static_assert(Answers::taken(Answers::word(70'000, std::int64_t{1} << 40)) == std::int64_t{1}
                                                                                  << 40);
static_assert(!Answers::is_answer(0, 1), "zero is nobody's first answer");
static_assert(Answers::is_answer(Answers::word(8, 5), 8) &&
              !Answers::is_answer(Answers::word(8, 5), 16));
static_assert(Answers::is_answer(Answers::word(1U << 16, 5), 1U << 16) &&
              !Answers::is_answer(Answers::word((1U << 16) - Answers::kSlots, 5), 1U << 16));
static_assert(Answers::may_write(8, 0) && !Answers::may_write(9, 0));
static_assert(Answers::may_write(3, 0xFFFF'FFFF), "also where numbers wrap");

/// Whether CTA 1 has read what CTA 0 was told.
bool passes_all_on(bool waits, std::uint32_t seed) {
  constexpr std::uint32_t kAnswers = 200;
  std::mt19937 random(seed);
  std::array<std::uint64_t, Answers::kSlots> slots{};
  std::uint32_t read = 0;  // in CTA 0's shared memory
  struct Store {
    bool back;
    std::uint32_t slot;
    std::uint64_t word;
  };
  std::vector<Store> late;
  std::uint32_t asked = 0, known = 0;
  std::vector<std::int64_t> told, heard;
  for (int step = 0; step < 200'000 && known < kAnswers; ++step) {
    switch (random() % (seed % 3 == 0 ? 12 : 3)) {  // of every third run CTA 1 is slow
      case 0:
        if (asked > known) {
          const std::uint64_t word = slots[Answers::slot(known + 1)];
          if (!Answers::is_answer(word, known + 1)) break;
          heard.push_back(Answers::taken(word));
          late.push_back({true, 0, ++known});
        }
        break;
      case 1:
        if (!late.empty()) {
          // Of any place the first; only stores to one place are in order.
          auto first = late.begin() + random() % static_cast<std::ptrdiff_t>(late.size());
          for (auto other = late.begin(); other != first; ++other) {
            if (other->back == first->back && other->slot == first->slot) first = other;
            if (first == other) break;
          }
          const Store store = *first;
          late.erase(first);
          if (store.back) {
            read = static_cast<std::uint32_t>(store.word);
          } else {
            slots[store.slot] = store.word;
          }
        }
        break;
      default:
        if (asked < kAnswers && (!waits || Answers::may_write(asked + 1, read))) {
          told.push_back(static_cast<std::int64_t>(random()));
          ++asked;
          late.push_back({false, Answers::slot(asked), Answers::word(asked, told.back())});
        }
    }
  }
  return known == kAnswers && heard == told;
}

TEST(PairAnswers, TheOtherReadsTheSame) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) ASSERT_TRUE(passes_all_on(true, seed)) << seed;
}

TEST(PairAnswers, TheModelSeesAnAnswerThatIsWrittenOver) {
  int failed = 0;
  for (std::uint32_t seed = 1; seed <= 300; ++seed) failed += passes_all_on(false, seed) ? 0 : 1;
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace moesaic::math
