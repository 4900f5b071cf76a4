// SPDX-License-Identifier: Apache-2.0
// The two ways to time work, which are never mixed in one figure.
#pragma once

#include <cstdint>
#include <string_view>

namespace moesaic::cli {

/// A short burst behind one gate, or seconds of work at the device's power limit.
enum class Regime : std::uint8_t { short_burst, sustained };

constexpr std::string_view name(Regime regime) noexcept {
  return regime == Regime::short_burst ? "short_burst" : "sustained";
}

/// Executes before the samples; a CPU's caches and pages take fewer.
inline constexpr std::int64_t kGpuWarmUps = 10, kCpuWarmUps = 2;
constexpr std::int64_t warm_ups_on(bool host, std::int64_t asked) noexcept {
  return host && asked > kCpuWarmUps ? kCpuWarmUps : asked;
}

/// sustained: seconds of each region, and of one unit of work without a gap.
struct SustainedRegions {
  double pilot_seconds = 0, conditioning_seconds = 0, measured_seconds = 0, unit_seconds = 0;
};

/// In the proportions of the report's own: 3 s, 8 s and 1.5 s, in units of 0.1 s.
constexpr SustainedRegions sustained_regions(double conditioning_seconds) noexcept {
  const double scale = conditioning_seconds / 8;
  return {3 * scale, 8 * scale, 1.5 * scale, 0.1 * scale};
}

}  // namespace moesaic::cli
