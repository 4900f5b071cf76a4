// SPDX-License-Identifier: Apache-2.0
// A refusal must have its code and name what it refuses.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "moesaic/error.hpp"

namespace moesaic::testing {

/// Runs `body`, which must throw Error of `code` whose message has every part; the first part must
/// begin the message, since it is the argument's name.
template <class Body>
void expect_error(ErrorCode code, std::initializer_list<std::string_view> parts, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << what;
    if (parts.size() > 0) {
      EXPECT_EQ(what.substr(0, parts.begin()->size()), *parts.begin()) << what;
    }
    for (const std::string_view part : parts) {
      EXPECT_NE(what.find(part), std::string::npos) << "no \"" << part << "\" in: " << what;
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown where an error beginning with \""
                << (parts.size() > 0 ? *parts.begin() : std::string_view()) << "\" was due";
}

}  // namespace moesaic::testing
