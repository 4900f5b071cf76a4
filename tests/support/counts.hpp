// SPDX-License-Identifier: Apache-2.0
// Row counts that have broken real kernels: empties at every place, tile edges, one row each, one
// expert with nearly all, sums of thousands of experts.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace moesaic::testing {

using Counts = std::vector<std::int64_t>;

struct NamedCounts {
  std::string name;
  Counts counts;
};

inline Counts repeated(const Counts& pattern, std::int64_t times) {
  Counts all;
  for (std::int64_t i = 0; i < times; ++i) {
    all.insert(all.end(), pattern.begin(), pattern.end());
  }
  return all;
}

inline std::int64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

inline std::vector<std::int32_t> ends(const Counts& counts) {
  std::vector<std::int32_t> offs;
  std::int64_t end = 0;
  for (const std::int64_t rows : counts) {
    end += rows;
    offs.push_back(static_cast<std::int32_t>(end));
  }
  return offs;
}

/// Up to 60 experts: cheap enough for every combination.
inline std::vector<NamedCounts> hostile_counts() {
  Counts one_to_20(20);
  std::iota(one_to_20.begin(), one_to_20.end(), 1);
  return {
      {"balanced", repeated({32}, 4)},
      {"balanced but one", {17, 17, 17, 17, 16, 16, 16, 16}},
      {"all empty", repeated({0}, 8)},
      {"only first", {130, 0, 0, 0}},
      {"only last", {0, 0, 0, 77}},
      {"only middle", {0, 0, 129, 0, 0}},
      {"interior empty", {150, 64, 0, 200, 0}},
      {"tiny odd", {5, 7, 9, 11}},
      {"one row each", repeated({1}, 60)},
      {"tile edges 64", {63, 64, 65, 0, 65, 64, 63}},
      {"tile edges 128", {127, 128, 129}},
      {"one row around 256", {255, 256, 257}},
      {"gaps", {200, 0, 56, 192}},
      {"one hot", {3, 1, 500, 2, 0, 1, 3, 38}},
      {"1 to 20", one_to_20},
      {"one expert", {177}},
      {"one expert one row", {1}},
      {"one expert no row", {0}},
      {"consecutive empties", {0, 0, 3, 0, 0, 0, 1, 0, 0}},
      {"empty weight gradients", {162, 0, 257, 44, 0, 83}},
      {"share of 44", {44}},
      {"odd number of experts", repeated({2, 0, 7}, 7)},
  };
}

/// Thousands of experts: tables per expert, one thread per expert, powers of two.
inline std::vector<NamedCounts> many_experts() {
  return {
      {"E 257", repeated({1}, 257)},
      {"E 1023", repeated({1, 0, 2}, 341)},
      {"E 1024", repeated({1}, 1024)},
      {"E 1025", repeated({1, 0, 0, 3, 1}, 205)},
      {"E 4096", repeated({0, 1, 0, 0}, 1024)},
  };
}

}  // namespace moesaic::testing
