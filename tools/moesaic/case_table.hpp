// SPDX-License-Identifier: Apache-2.0
// The hostile histograms of `verify`: rows per expert that broke other libraries, or sit on an
// edge.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moesaic::cli {

struct Histogram {
  std::string name;
  std::vector<std::int64_t> counts;
  std::int64_t capacity = 0;    ///< Rows of the buffer, at least the sum of the counts.
  std::int64_t n = 24, k = 40;  ///< Widths: multiples of 8 that no tile divides.
  bool quick = false;           ///< Part of verify --quick.
  [[nodiscard]] bool slack() const;
};

/// All of them, in a fixed order.
std::span<const Histogram> histograms();
/// @throws Error{invalid_argument} for an unknown name.
const Histogram& histogram(const std::string& name);

/// Offsets that are wrong, and what the contract says of them.
struct BadOffsets {
  std::string name;
  std::vector<std::int32_t> offs;
  bool not_monotonic = false;  ///< Else out of range.
  int expert = 0;              ///< The lowest bad one.
  bool overlap = false;        ///< Two valid segments share rows: only wgrad is then defined.
};
inline constexpr std::int64_t kBadOffsetsCapacity = 40;
std::span<const BadOffsets> bad_offsets();

}  // namespace moesaic::cli
