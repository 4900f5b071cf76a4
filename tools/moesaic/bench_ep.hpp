// SPDX-License-Identifier: Apache-2.0
// What `bench ep` says of one operation on one routing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ep_site.hpp"
#include "moesaic/device_telemetry.hpp"

namespace moesaic::cli {

struct EpCase {
  std::string routing, operation;
  std::uint64_t seed = 0;  ///< Of the routing.
  int nblocks = 0;
  std::vector<double> median_seconds;  ///< Of each process.
  std::int64_t samples = 0, warm_ups = 0;
  EpTraffic traffic;
  EpCheck check;
  std::int64_t row_bytes = 0;
  [[nodiscard]] double seconds() const;  ///< Of the slowest.
  /// Remote rows of the busiest direction of any rank, there or back once per transfer; by fan-out
  /// a token once for each remote rank.
  [[nodiscard]] std::int64_t remote_bytes() const;
  [[nodiscard]] double remote_bytes_per_second() const;  ///< 0 where nothing is remote.
};

/// One JSON line, schema moesaic.bench_ep/1, without a newline.
std::string ep_row(const EpCase& one, const EpSite& site, const DeviceInfo& device,
                   const DeviceCircumstances& around, const std::string& command);
std::string ep_table(const std::vector<EpCase>& cases);

}  // namespace moesaic::cli
