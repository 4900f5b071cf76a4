// SPDX-License-Identifier: Apache-2.0
#include "math/fan_out.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace moesaic::math {
namespace {

static_assert(told_row(2, 5, 2, 6) == 5 && told_row(2, 6, 2, 6) == -1);
static_assert(told_row(1, 5, 2, 6) == -1 && told_row(2, -1, 2, 6) == -1);
static_assert(told_row(-1, -1, 0, 6) == -1);

static_assert(decode_told_tokens(0) == ToldTokens{});  // what memory holds before it is told

TEST(FanOut, WhatIsToldOfTokensIsRead) {
  for (const std::int32_t count : {0, 1, 8192, kMaxOf<std::int32_t>}) {
    for (const bool weighted : {false, true}) {
      const ToldTokens tokens{count, weighted};
      EXPECT_EQ(decode_told_tokens(encode_told_tokens(tokens)), tokens);
    }
  }
}

TEST(FanOut, OneRouteOfATokenCarriesItsRowToEachRank) {
  std::mt19937 random(3);
  const std::int32_t num_ranks = 4;
  const std::int64_t max_rows = 10;
  for (const std::int32_t topk : {1, 2, 8, 70}) {
    // Ranks and rows that are negative or too large are among them.
    std::uniform_int_distribution<std::int32_t> rank(-1, num_ranks), row(-1, max_rows);
    const std::int64_t tokens = 200;
    std::vector<std::int32_t> ranks, rows;
    for (std::int64_t route = 0; route < tokens * topk; ++route) {
      ranks.push_back(rank(random));
      rows.push_back(row(random));
    }
    for (std::int64_t token = 0; token < tokens; ++token) {
      std::map<std::int32_t, std::vector<std::int32_t>> told, carried;
      for (std::int32_t slot = 0; slot < topk; ++slot) {
        const auto route = static_cast<std::size_t>(token * topk + slot);
        const bool moves = moves_row(ranks[route], rows[route], num_ranks, max_rows);
        for (std::int32_t to = 0; to < num_ranks; ++to) {
          const std::int32_t row_there = told_row(ranks[route], rows[route], to, max_rows);
          EXPECT_EQ(row_there >= 0, moves && ranks[route] == to);
          if (row_there >= 0) told[to].push_back(row_there);
        }
        if (moves && !reaches_rank(ranks, rows, token * topk, slot, ranks[route], max_rows)) {
          carried[ranks[route]].push_back(rows[route]);
        }
      }
      // Once to each rank that was told of a row, into the first of them.
      ASSERT_EQ(carried.size(), told.size());
      for (const auto& [to, rows_there] : carried) {
        ASSERT_EQ(rows_there.size(), 1U);
        EXPECT_EQ(rows_there.front(), told[to].front());
      }
    }
  }
}

TEST(FanOut, NoWordIsTwoThings) {
  for (const std::int32_t num_ranks : {1, 2, 5}) {
    for (const std::int64_t max_routes : {0, 1, 7}) {
      const FanOutLayout layout{num_ranks, max_routes};
      std::set<std::int64_t> words;
      std::int64_t count = 0;
      const auto take = [&](std::int64_t begin, std::int64_t size) {
        for (std::int64_t word = begin; word < begin + size; ++word, ++count) words.insert(word);
      };
      for (const std::uint32_t turn : {0u, 1u}) {
        for (std::int32_t source = 0; source < num_ranks; ++source) {
          take(layout.rows_index(turn, source), max_routes);
          take(layout.probs_index(turn, source), max_routes);
          take(layout.tokens_index(turn, source), 1);
        }
      }
      take(layout.calls_index(), 2);
      EXPECT_EQ(static_cast<std::int64_t>(words.size()), count);
      EXPECT_EQ(*words.rbegin() + 1, layout.words());
      EXPECT_EQ(count, layout.words());
    }
  }
}

TEST(FanOut, WordsBeyondTwoToThe31) {
  const FanOutLayout layout{1024, std::int64_t{1} << 30};
  EXPECT_EQ(layout.probs_index(1, 1023), ((std::int64_t{3} << 10) + 1023) << 30);
}

}  // namespace
}  // namespace moesaic::math
