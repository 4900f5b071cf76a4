// SPDX-License-Identifier: Apache-2.0
// Checks of single fields that problems have in common. Each refusal names its field.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/enum_words.hpp"
#include "core/message.hpp"

namespace moesaic::core {

inline constexpr std::int64_t kMaxExperts = 65'536;
inline constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 30;

/// An integer in [low, high].
inline void check_range(std::string_view field, std::int64_t value, std::int64_t low,
                        std::int64_t high) {
  if (value < low || value > high) {
    refuse(field, std::to_string(low) + " to " + std::to_string(high), std::to_string(value));
  }
}

/// The width of a row or a weight.
inline void check_width(std::string_view field, std::int64_t value) {
  if (value <= 0 || value % 8 != 0 || value > kMaxWidth) {
    refuse(field, "a positive multiple of 8, at most 2^30", std::to_string(value));
  }
}

/// One of the enum's constants.
template <class Enum>
void check_constant(std::string_view field, Enum value) {
  if (!is_constant(value)) {
    refuse(field, all_words<Enum>(), std::to_string(static_cast<int>(value)));
  }
}

/// A format that this version multiplies, with an output type that fits it.
void check_format(Format format, DType d_dtype, std::string_view d_field);

}  // namespace moesaic::core
