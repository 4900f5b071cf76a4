// SPDX-License-Identifier: Apache-2.0
// The one property of every reader: whatever the bytes, it returns or throws Error, and what
// reached the sink is well formed. A format's fuzzer chooses only the file name and the options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "moesaic/error.hpp"
#include "moesaic/routing.hpp"

namespace moesaic::routing::fuzzing {

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline void read_anything(std::span<const std::uint8_t> bytes, const std::string& name,
                          const ReadOptions& options) {
  std::int64_t records = 0;
  const auto check = [&](Record&& record) {
    ++records;
    const auto experts = static_cast<std::int64_t>(record.counts.size());
    require(experts >= 1 && experts <= kMaxExperts);
    for (const std::int64_t count : record.counts) require(count >= 0);
    require(record.rows() >= 0 && record.invalid_slots >= 0);
    require(record.layer >= 0 && record.step >= 0 && record.rank >= -1 && record.source == name);
    if (record.rows() > 0) require(rescale(record, 1000).rows() == 1000);
  };
  try {
    const SourceSummary summary = read_bytes(std::as_bytes(bytes), name, options, check);
    require(summary.records == records && records > 0 && !summary.format.empty());
  } catch (const Error& error) {
    const std::string message = error.what();
    require(message.starts_with(name) && message.find('\n') == std::string::npos);
  }
}

}  // namespace moesaic::routing::fuzzing
