// SPDX-License-Identifier: Apache-2.0
// The public timer: splits the pieces over gates. Events and gates are the backend's.

#include "moesaic/device_timer.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/message.hpp"
#include "dispatch/backend_list.hpp"

namespace moesaic {

std::vector<double> DeviceTimer::time(std::span<const std::function<void()>> pieces,
                                      TimerGate gate) const {
  const backends::Backend& backend = dispatch::device_backend(stream_.device());
  std::vector<double> seconds;
  seconds.reserve(pieces.size());
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), kPiecesPerGate);
    const std::vector<double> part = backend.time(pieces.first(count), stream_, gate);
    seconds.insert(seconds.end(), part.begin(), part.end());
    pieces = pieces.subspan(count);
  }
  return seconds;
}

UnitTimes DeviceTimer::time_units(const std::function<void()>& piece, std::int64_t calls_per_unit,
                                  std::int64_t units) const {
  if (calls_per_unit < 1) {
    core::refuse("calls_per_unit", "at least 1", std::to_string(calls_per_unit));
  }
  if (units < 1) core::refuse("units", "at least 1", std::to_string(units));
  return dispatch::device_backend(stream_.device())
      .time_units(piece, calls_per_unit, units, stream_);
}

}  // namespace moesaic
