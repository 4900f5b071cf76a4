// SPDX-License-Identifier: Apache-2.0
// Words of the command line into values, with one form of refusal: flag, what was expected, what
// came. Which flags a verb has is options.cpp's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"

namespace moesaic::cli {

/// A whole decimal number in [low, high]. @throws Error{invalid_argument} naming `flag`.
std::int64_t parse_integer(std::string_view flag, std::string_view text, std::int64_t low,
                           std::int64_t high);
/// Any unsigned 64-bit number.
std::uint64_t parse_seed(std::string_view flag, std::string_view text);
/// "8,16,32": distinct positive tile heights. @throws Error{invalid_argument}.
std::vector<std::int64_t> parse_tiles(std::string_view text);

RunPass parse_pass(std::string_view text);
Format parse_dtype(std::string_view text);
BackendChoice parse_backend(std::string_view text);
UpGateOrder parse_order(std::string_view text);
/// One strategy, or all three for "all".
std::vector<Strategy> parse_strategy(std::string_view text);
ViewBy parse_by(std::string_view text);
routing::Form parse_form_word(std::string_view text);

std::string_view name(RunPass pass) noexcept;
std::string_view name(BackendChoice choice) noexcept;
/// "bf16" or "fp32": the words of --dtype.
std::string_view dtype_word(Format format) noexcept;

}  // namespace moesaic::cli
