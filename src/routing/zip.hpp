// SPDX-License-Identifier: Apache-2.0
// The directory of a ZIP held in memory, and its stored or deflated members. Source: PKWARE
// APPNOTE 6.3.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "routing/input.hpp"

namespace moesaic::routing {

struct ZipMember {
  std::string name;
  int method = 0;         ///< 0 stored, 8 deflated
  std::uint32_t crc = 0;  ///< CRC-32 of the bytes unpacked
  std::int64_t packed_bytes = 0, size_bytes = 0, header_offset = 0;
};

/// Lists the members. `name` begins the messages. Throws if the bytes are no ZIP or a damaged one.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(std::span<const char> zip,
                                                        const std::string& name);

/// Opens one member; `zip` outlives the source. The member is read once beforehand: throws if its
/// size or CRC-32 is not what the directory states, so that no damaged byte reaches a reader.
[[nodiscard]] std::unique_ptr<ByteSource> open_zip_member(std::span<const char> zip,
                                                          const ZipMember& member,
                                                          const std::string& name);

}  // namespace moesaic::routing
