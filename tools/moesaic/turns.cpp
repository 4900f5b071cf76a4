// SPDX-License-Identifier: Apache-2.0
// Arms that take turns.
#include "turns.hpp"

namespace moesaic::cli {

TurnTimes time_in_turns(const Site& site, std::span<const std::function<void()>> calls,
                        const Rounds& rounds, TimerGate gate) {
  TurnTimes times;
  times.samples_seconds.resize(calls.size());
  if (calls.empty()) return times;
  std::vector<std::function<void()>> pieces;
  std::vector<std::size_t> owner;
  for (std::int64_t round = 0; round < rounds.warm_ups + rounds.samples; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      owner.push_back((i + static_cast<std::size_t>(round)) % calls.size());
      pieces.push_back(calls[owner.back()]);
    }
  }
  DeviceTelemetry telemetry(site.device());
  const CpuLoadMeter meter;
  const std::vector<double> seconds = DeviceTimer(site.stream()).time(pieces, gate);
  times.clocks = telemetry.stop();
  times.load = meter.stop();
  const auto warm_up_pieces = static_cast<std::size_t>(rounds.warm_ups) * calls.size();
  for (std::size_t i = warm_up_pieces; i < seconds.size(); ++i) {
    times.samples_seconds[owner[i]].push_back(seconds[i]);
  }
  return times;
}

}  // namespace moesaic::cli
