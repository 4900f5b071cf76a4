// SPDX-License-Identifier: Apache-2.0
// Events around work that a gate holds back until all of it is enqueued.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "moesaic/device_timer.hpp"

namespace moesaic::backends::cuda::launch {

/// Seconds of each piece on `stream`. See DeviceTimer.
std::vector<double> time_pieces(std::span<const std::function<void()>> pieces, const Stream& stream,
                                TimerGate gate);

/// Units of one captured graph on `stream`, one behind another. See DeviceTimer.
UnitTimes time_units(const std::function<void()>& piece, std::int64_t calls_per_unit,
                     std::int64_t units, const Stream& stream);

}  // namespace moesaic::backends::cuda::launch
