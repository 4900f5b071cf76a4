// SPDX-License-Identifier: Apache-2.0
// How long enqueued work takes on its device, free of the host's pace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "moesaic/stream.hpp"

namespace moesaic {

/// Whether work waits behind a gate until all of it is enqueued. `open` is for work that itself
/// waits for the device, such as Strategy::host_loop: behind a closed gate it would wait forever.
enum class TimerGate : std::uint8_t { closed, open };

/// Times of equal units of work, one after another.
struct UnitTimes {
  std::vector<double> seconds;  ///< Of each unit; of the first with the launch before it.
  std::int64_t late = 0;        ///< Units before which the device may have run dry; 0: no gaps.
};

/// Times pieces of work of one stream.
///
/// On a GPU every piece stands between two events. With a closed gate, a one-thread kernel that
/// spins on a flag in host memory holds the stream until every piece has been enqueued, so the
/// times are the device's alone: no launch gaps, no host. Where the device's queue is full before
/// that, the gate opens seconds later, and the host enqueues the rest ahead of the device. On the
/// CPU a piece is timed by the steady clock and the gate has no meaning.
class DeviceTimer {
 public:
  /// Pieces behind one gate: so few that the device's queue mostly holds all their launches.
  static constexpr std::size_t kPiecesPerGate = 96;

  /// The stream is the caller's and must live as long as the timer is used.
  explicit DeviceTimer(Stream stream) noexcept : stream_(stream) {}

  /// Calls every piece once, in order, and waits for all of it. A piece enqueues on the timer's
  /// stream alone and, behind a closed gate, never waits for it. More than kPiecesPerGate pieces
  /// take several gates, one after another.
  /// @returns seconds of each piece, in order, above 0.
  /// @throws Error{device_failure} when, behind a closed gate, the device came to a piece before
  /// all of it was enqueued, as it does to one that waits for the device: such times would hold the
  /// host's pace; whatever a piece throws, after the gate has been opened.
  [[nodiscard]] std::vector<double> time(std::span<const std::function<void()>> pieces,
                                         TimerGate gate = TimerGate::closed) const;

  /// Runs `units` units of `calls_per_unit` calls of `piece` one after another, and waits for all
  /// of it. On a GPU a unit is one CUDA graph, captured once, so `piece` is called `calls_per_unit`
  /// times and must be capturable. Units are enqueued while the device works on those before,
  /// without a gate: what fits behind one has a limit. On the CPU it is called `units *
  /// calls_per_unit` times.
  /// @throws Error{invalid_argument} for less than one unit or call; Error{device_failure} when the
  /// device refuses the capture; whatever `piece` throws.
  [[nodiscard]] UnitTimes time_units(const std::function<void()>& piece,
                                     std::int64_t calls_per_unit, std::int64_t units) const;

 private:
  Stream stream_;
};

}  // namespace moesaic
