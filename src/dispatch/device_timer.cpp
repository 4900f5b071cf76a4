// SPDX-License-Identifier: Apache-2.0
// The public timer: splits the pieces over gates. Events and gates are the backend's.

#include "moesaic/device_timer.hpp"

#include <algorithm>
#include <vector>

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

}  // namespace moesaic
