// SPDX-License-Identifier: Apache-2.0
// The one form of every refusal: which argument, what was expected, what came.
#pragma once

#include <string>
#include <string_view>

#include "moesaic/error.hpp"

namespace moesaic::core {

/// "d: expected bf16 [64, 128], got f32 [64, 128] …"
inline std::string expected_got(std::string_view argument, std::string_view expected,
                                std::string_view got) {
  std::string text(argument);
  text.append(": expected ").append(expected).append(", got ").append(got);
  return text;
}

[[noreturn]] inline void refuse(std::string_view argument, std::string_view expected,
                                std::string_view got,
                                ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, expected_got(argument, expected, got));
}

}  // namespace moesaic::core
