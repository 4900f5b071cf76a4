// SPDX-License-Identifier: Apache-2.0
// The hostile histograms of `verify`.
#include "case_table.hpp"

#include <limits>
#include <numeric>

#include "text.hpp"

namespace moesaic::cli {
namespace {

using Counts = std::vector<std::int64_t>;

std::int64_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// `experts` counts, expert e with those of the pattern at e modulo its length.
Counts repeated(std::int64_t experts, const Counts& pattern) {
  Counts counts;
  for (std::int64_t e = 0; e < experts; ++e) {
    counts.push_back(pattern[static_cast<std::size_t>(e) % pattern.size()]);
  }
  return counts;
}

/// A buffer that ends with the last expert's rows.
Histogram full(std::string name, Counts counts, bool quick = false) {
  const std::int64_t rows = sum(counts);
  return {std::move(name), std::move(counts), rows, 24, 40, quick};
}

/// A buffer with unused rows behind.
Histogram slack(std::string name, Counts counts, std::int64_t unused, bool quick = false) {
  Histogram result = full(std::move(name), std::move(counts), quick);
  result.capacity += unused;
  return result;
}

Histogram wide(Histogram histogram) {
  histogram.n = 136;
  histogram.k = 72;
  return histogram;
}

std::vector<Histogram> make() {
  std::vector<Histogram> all;
  all.push_back(wide(full("mixed", {150, 64, 0, 200, 0}, true)));
  all.push_back(full("odd_starts", {5, 7, 9, 11, 3, 1}, true));
  all.push_back(slack("all_empty", {0, 0, 0, 0}, 16, true));
  all.push_back(full("no_rows_no_buffer", {0, 0, 0}, true));
  all.push_back(slack("first_only", {33, 0, 0, 0}, 3));
  all.push_back(slack("middle_only", {0, 0, 33, 0, 0}, 3, true));
  all.push_back(slack("last_only", {0, 0, 0, 33}, 3));
  all.push_back(full("one_expert", {77}, true));
  all.push_back(full("one_row", {1}, true));
  all.push_back(wide(full("tile_edges", {127, 128, 129, 255, 256, 257})));
  all.push_back(full("small_edges", {63, 64, 65, 31, 32, 33, 15, 16, 17, 7, 8, 9, 1}, true));
  all.push_back(full("sixty", repeated(60, {4, 0, 9, 1})));
  all.push_back(full("ones_256", repeated(256, {1})));
  all.push_back(full("experts_257", repeated(257, {3, 0, 1})));
  all.push_back(full("experts_1025", repeated(1025, {1, 0, 1, 1})));
  all.push_back(full("experts_2048_sparse", repeated(2048, {0, 0, 0, 0, 0, 0, 0, 2})));
  all.push_back(full("hot_ninety", {5, 900, 10, 5, 20, 10, 25, 25}));
  all.push_back(full("tiny_over_many", repeated(64, {1, 0, 0, 1, 0, 0, 1})));
  all.push_back(full("empty_between_large", {162, 0, 577, 446, 0, 83}));
  all.push_back(full("eights_and_gaps", {0, 8, 8, 0, 16}, true));
  all.push_back(full("not_of_thirty_two", {44, 8, 16, 64, 20}));
  all.push_back(full("skewed_32", repeated(32, {4, 226, 99, 16, 94, 53, 0, 17, 0, 140, 11})));
  all.push_back(slack("one_row_to_spare", {17, 17, 17, 17, 16, 16, 16, 16}, 1, true));
  all.push_back(slack("mostly_unused", {5, 0, 7, 11, 1}, 500, true));
  return all;
}

constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();

}  // namespace

bool Histogram::slack() const { return capacity > sum(counts); }

std::span<const Histogram> histograms() {
  static const std::vector<Histogram> all = make();
  return all;
}

const Histogram& histogram(const std::string& name) {
  for (const Histogram& one : histograms()) {
    if (one.name == name) return one;
  }
  refuse("histogram", "a known name", name);
}

std::span<const BadOffsets> bad_offsets() {
  static const std::vector<BadOffsets> all = {
      {"falls_then_empty", {10, 4, 4, 4}, true, 1, false},
      {"last_falls", {3, 9, 5}, true, 2, false},
      {"negative", {4, -1, 9, 12}, false, 1, false},
      {"first_negative", {-8, 3, 11}, false, 0, false},
      {"past_the_end", {4, 41, 41, 40}, false, 1, false},
      {"last_past_the_end", {4, 30, 41}, false, 2, false},
      {"extremes", {kLowest, kHighest, 5, 7}, false, 0, false},
      {"two_bad_lowest_kept", {7, 3, -5, 9, 20}, true, 1, false},
      {"falls_into_neighbour", {8, 6, 12}, true, 1, true},
  };
  return all;
}

}  // namespace moesaic::cli
