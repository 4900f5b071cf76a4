// SPDX-License-Identifier: Apache-2.0
// Small text helpers of the command: printf-style formatting, numbers for people, shell quoting.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moesaic::cli {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// 49962 -> "49,962".
std::string grouped_digits(std::int64_t value);

/// A fraction as "17.5 %".
std::string percent(double fraction);

/// "1.25 s", "310 ms", "4.2 us".
std::string duration(double seconds);

/// "3.1 GB" (powers of ten).
std::string byte_count(double bytes);

/// An element's value with nine digits; "nan" for any NaN.
std::string element_text(double value);

/// The word as a POSIX shell would have to be given it.
std::string shell_quote(std::string_view word);

/// "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator);

/// "--pass: expected forward, dgrad, wgrad or mlp, got "x"".
std::string expected_got(std::string_view argument, std::string_view expected,
                         std::string_view got);

/// Throws Error{invalid_argument} with the text of expected_got().
[[noreturn]] void refuse(std::string_view argument, std::string_view expected,
                         std::string_view got);

/// The word of `known` nearest to `word` by edit distance, if near enough to be a slip; else empty.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace moesaic::cli
