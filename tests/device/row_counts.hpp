// SPDX-License-Identifier: Apache-2.0
// Row counts of experts that have broken grouped kernels elsewhere. Names say the symptom; the
// reports are named beside them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace moesaic::device_tests {

struct Counts {
  std::string name;
  std::vector<std::int32_t> counts;
};

inline void PrintTo(const Counts& counts, std::ostream* out) { *out << counts.name; }

inline std::vector<std::int32_t> repeated(const std::vector<std::int32_t>& pattern, int times) {
  std::vector<std::int32_t> counts;
  for (int i = 0; i < times; ++i) counts.insert(counts.end(), pattern.begin(), pattern.end());
  return counts;
}
inline std::vector<std::int32_t> one_to(int last) {
  std::vector<std::int32_t> counts;
  for (int i = 1; i <= last; ++i) counts.push_back(i);
  return counts;
}

/// Every pair that a symptom was reported for, and what lies around a tile's edges.
inline std::vector<Counts> hostile_counts() {
  return {
      {"balanced", repeated({256}, 8)},
      // Hangs or old bits where an expert has no rows: pytorch#152668, #172439, cutlass#1593.
      {"all_empty", repeated({0}, 8)},
      {"only_first", {300, 0, 0, 0}},
      {"only_last", {0, 0, 0, 77}},
      {"only_middle", {0, 0, 129, 0, 0}},
      {"interior_empty", {150, 64, 0, 200, 0}},
      {"two_with_gap", {200, 0, 56, 192}},
      // Fewer rows than a tile: DeepGEMM#268, pytorch#174314.
      {"tiny_odd", {5, 7, 9, 11}},
      {"one_row_each", repeated({1}, 64)},
      {"one_to_64", one_to(64)},
      {"tile_edges", {63, 64, 65, 127, 128, 129, 255, 256, 257}},
      {"block_edges", {191, 192, 193, 319, 320, 321, 383, 384, 385, 447, 448, 449, 511}},
      // Contractions one after another in one CTA: DeepGEMM#343, #365, #429.
      {"short_groups", {128, 128, 256, 256, 128, 256, 256, 256}},
      {"two_groups", {384, 256}},
      // One expert has nearly all: cutlass#3165, DeepEP#427.
      {"one_hot", {3, 1, 2000, 2, 0, 1, 3, 38}},
      {"one_expert", {777}},
      // More experts than threads of a block: torch's limit of 1024, TensorRT-LLM#11510.
      {"experts_1023", repeated({1, 0, 2}, 341)},
      {"experts_1024", repeated({1}, 1024)},
      {"experts_1025", repeated({1, 0, 0, 3, 1}, 205)},
      {"experts_2048", repeated({2, 0}, 1024)},
      {"experts_4096", repeated({0, 1, 0, 2}, 1024)},
  };
}

}  // namespace moesaic::device_tests
