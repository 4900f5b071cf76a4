// SPDX-License-Identifier: Apache-2.0
// Words of the command line into values, with one form of refusal: flag, what was expected, what
// came. Which flags a verb has is option_verbs.cpp's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"
#include "text.hpp"

namespace moesaic::cli {

/// A whole decimal number in [low, high]. @throws Error{invalid_argument} naming `flag`.
std::int64_t parse_integer(std::string_view flag, std::string_view text, std::int64_t low,
                           std::int64_t high);
/// Any unsigned 64-bit number.
std::uint64_t parse_seed(std::string_view flag, std::string_view text);
/// "8,16,32": distinct positive tile heights. @throws Error{invalid_argument}.
std::vector<std::int64_t> parse_tiles(std::string_view text);

/// "4096,8192": distinct numbers of rows. @throws Error{invalid_argument}.
std::vector<std::int64_t> parse_row_counts(std::string_view text);
/// "0.03": a fraction from 0 to 100. @throws Error{invalid_argument}.
double parse_threshold(std::string_view text);
/// "90s", "30m" or "1.5h" in seconds, above 0. @throws Error{invalid_argument} naming `flag`.
double parse_seconds(std::string_view flag, std::string_view text);
/// The name of a device preset. @throws Error{invalid_argument} naming `flag`, with those known.
std::string read_device(std::string_view flag, std::string_view text);
/// The words between commas, each read by `read`; none twice. @throws Error{invalid_argument}.
template <class T, class Read>
std::vector<T> parse_list(std::string_view flag, std::string_view text, const Read& read) {
  std::vector<T> values;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const T value = read(text.substr(start, comma - start));
    if (std::find(values.begin(), values.end(), value) != values.end()) {
      refuse(flag, "every one once", text);
    }
    values.push_back(value);
    start = comma + 1;
  }
  return values;
}

RunPass parse_pass(std::string_view text);
Format parse_dtype(std::string_view text);
BackendChoice parse_backend(std::string_view text);
UpGateOrder parse_order(std::string_view text);
/// One strategy, or all three for "all".
std::vector<Strategy> parse_strategy(std::string_view text);
ViewBy parse_by(std::string_view text);
routing::Form parse_form_word(std::string_view text);

/// Throws for bad usage of a verb: the message, then where its flags are listed.
[[noreturn]] void refuse_usage(const std::string& verb, const std::string& message);
/// What one flag alone cannot tell. @throws Error{invalid_argument}.
void check_together(const Options& options);

std::string_view name(RunPass pass) noexcept;
std::string_view name(BackendChoice choice) noexcept;
/// "bf16" or "fp32": the words of --dtype.
std::string_view dtype_word(Format format) noexcept;

}  // namespace moesaic::cli
