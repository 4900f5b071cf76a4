// SPDX-License-Identifier: Apache-2.0
// Where the expert's kernels find the two parts of U [M, 2h]. The first part and the second are up
// and gate, or gate and up, halves of a row or its even and odd columns. A tile works on 64 columns
// of H at a time: two panels of U.
#pragma once

#include <cstdint>

#include "math/activation.hpp"
#include "math/host_device.hpp"

namespace moesaic::backends::cuda {

struct PartLayout {
  bool interleaved = false;  ///< Else the second part begins h columns behind the first.
  bool gate_first = false;
  bool operator==(const PartLayout&) const = default;
};

constexpr PartLayout part_layout(math::UpGateLayout layout) {
  return {layout == math::UpGateLayout::interleaved, layout == math::UpGateLayout::gate_up};
}

/// Coordinates of panel 0 or 1 of U for the 64 columns of H from `column` on, in a map whose
/// dimensions are columns of a part and parts; an interleaved U is one part of 2h columns.
struct PartPanel {
  std::int32_t column, part;
  bool operator==(const PartPanel&) const = default;
};
MOESAIC_HD constexpr PartPanel part_panel(const PartLayout& layout, std::int32_t column,
                                          int panel) {
  return layout.interleaved ? PartPanel{2 * column + 64 * panel, 0} : PartPanel{column, panel};
}

/// Columns of one part, and parts, of U as such a map has them.
struct PartExtent {
  std::int64_t columns, parts;
};
constexpr PartExtent part_extent(const PartLayout& layout, std::int64_t h) {
  return layout.interleaved ? PartExtent{2 * h, 1} : PartExtent{h, 2};
}

/// A product that makes both parts has its columns in blocks, 64 of the first part and 64 of the
/// second, for 64 columns of H: what it takes for its width, a part's last columns filled up.
constexpr std::int64_t paired_width(std::int64_t h) { return (h + 63) / 64 * 128; }

}  // namespace moesaic::backends::cuda
