// SPDX-License-Identifier: Apache-2.0
// Numbers as text, the same bytes everywhere: no locale, no stream state. And the one way to
// refuse.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "moesaic/error.hpp"

namespace moesaic::planner {

[[noreturn]] inline void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

/// 131072 -> "131,072".
inline std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

/// 1 -> "1 row", 2000 -> "2,000 rows".
inline std::string rows_text(std::int64_t rows) {
  return grouped(rows) + (rows == 1 ? " row" : " rows");
}

/// `value` with exactly `digits` decimals.
inline std::string fixed(double value, int digits) {
  std::array<char, 512> buffer{};  // a double needs at most 309 digits before the point
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, digits);
  return std::string(buffer.data(), end.ptr);
}

/// 0.175 -> "17.5 %".
inline std::string percent(double fraction) { return fixed(100.0 * fraction, 1) + " %"; }

/// Seconds in the unit that leaves one to three digits before the point.
inline std::string duration(double seconds) {
  if (seconds >= 1) return fixed(seconds, 3) + " s";
  if (seconds >= 1e-3) return fixed(seconds * 1e3, 3) + " ms";
  if (seconds > 0 && seconds < 0.05e-6) return "< 0.1 us";
  return fixed(seconds * 1e6, 1) + " us";
}

}  // namespace moesaic::planner
