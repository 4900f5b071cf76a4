// SPDX-License-Identifier: Apache-2.0
// L0: how several warps share out the rows of one side of a tile after another: four rows at a
// time, in turns that go on from side to side, so that nobody has more than one unit more than
// another in the long run.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// The units of one of `kWarps` warps.
template <std::int32_t kWarps>
class SideUnits {
 public:
  static constexpr std::int32_t kRows = 4;  ///< Of a unit.

  MOESAIC_HD constexpr explicit SideUnits(std::int32_t warp) : next_(warp) {}

  /// The first row of this warp's next unit, in the side.
  [[nodiscard]] MOESAIC_HD constexpr std::int32_t row() const { return next_ * kRows; }
  /// Rows from one of its units to its next.
  static constexpr std::int32_t kStep = kWarps * kRows;

  /// Calls unit(its first row) for each of this warp's units of a side of `rows` rows.
  template <class Unit>
  MOESAIC_HD constexpr void for_each(std::int32_t rows, const Unit& unit) {
    const std::int32_t units = ceil_div(rows, kRows);
    for (; next_ < units; next_ += kWarps) unit(row());
    next_ -= units;
  }

 private:
  std::int32_t next_;
};

}  // namespace moesaic::math
