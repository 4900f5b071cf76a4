// SPDX-License-Identifier: Apache-2.0
// Small text helpers of the command.
#include "text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "moesaic/error.hpp"

namespace moesaic::cli {

std::string format(const char* pattern, ...) {
  std::va_list first;
  va_start(first, pattern);
  std::va_list second;
  va_copy(second, first);
  const int length = std::vsnprintf(nullptr, 0, pattern, first);
  va_end(first);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, second);
  va_end(second);
  return text;
}

std::string grouped_digits(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string percent(double fraction) { return format("%.1f %%", 100 * fraction); }

std::string duration(double seconds) {
  static constexpr double kNoFraction = 100;
  if (seconds >= kNoFraction) return format("%.0f s", seconds);
  if (seconds >= 1) return format("%.3g s", seconds);
  if (seconds >= 1e-3) return format("%.3g ms", seconds * 1e3);
  return format("%.3g us", seconds * 1e6);
}

std::string byte_count(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return format("%.3g %s", bytes, kUnits[unit]);
}

std::string element_text(double value) { return std::isnan(value) ? "nan" : format("%.9g", value); }

std::string shell_quote(std::string_view word) {
  static constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,.:/+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::string expected_got(std::string_view argument, std::string_view expected,
                         std::string_view got) {
  std::string text(argument);
  text.append(": expected ").append(expected).append(", got \"").append(got).append("\"");
  return text;
}

void refuse(std::string_view argument, std::string_view expected, std::string_view got) {
  throw Error(ErrorCode::invalid_argument, expected_got(argument, expected, got));
}

namespace {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string& candidate : known) {
    // A word typed with something appended («--tile-shape») is as likely as a misspelling.
    const bool prefix = word.size() > 4 && candidate.size() > 4 &&
                        (word.starts_with(candidate) || candidate.starts_with(word));
    const std::size_t distance = prefix ? 1 : edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace moesaic::cli
