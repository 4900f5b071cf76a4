// SPDX-License-Identifier: Apache-2.0
// How the routing layer refuses: one function that joins the pieces of a message.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "moesaic/error.hpp"

namespace moesaic::routing {

/// Joins its arguments into one string with stream output.
template <class... Parts>
[[nodiscard]] std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws Error{invalid_argument} with the joined message.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, concat(parts...));
}

/// `text` fit for a one-line message: control and non-ASCII bytes as \xNN, cut after `max_chars`.
[[nodiscard]] std::string printable(std::string_view text, std::size_t max_chars = 40);

}  // namespace moesaic::routing
