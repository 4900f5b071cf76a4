// SPDX-License-Identifier: Apache-2.0
// Base-128 integers in a string: how records are held back while a file's header is still to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moesaic::routing {

inline void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

/// Takes one number that put_varint wrote off the front of `in`.
[[nodiscard]] inline std::uint64_t take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (int shift = 0; !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

}  // namespace moesaic::routing
