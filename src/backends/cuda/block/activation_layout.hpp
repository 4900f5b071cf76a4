// SPDX-License-Identifier: Apache-2.0
// Where the expert's kernels find the two parts of U [M, 2h]. The first part and the second are up
// and gate, or gate and up, halves of a row or its even and odd columns. A lane of an
// activation warp has eight columns of both at a time, a chunk.
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

/// Where eight columns of up and eight of gate begin in a row of U, those of the eight columns of H
/// from `column` on. Interleaved they are mixed, up first: sixteen columns from `up` on, of which
/// `gate` is the ninth.
struct ChunkColumns {
  std::int64_t up, gate;
};
MOESAIC_HD constexpr ChunkColumns chunk_columns(const PartLayout& layout, std::int64_t column,
                                                std::int64_t h) {
  if (layout.interleaved) return {2 * column, 2 * column + 8};
  return layout.gate_first ? ChunkColumns{h + column, column} : ChunkColumns{column, h + column};
}

/// From a chunk to that of 64 columns of H further.
MOESAIC_HD constexpr int chunk_step(const PartLayout& layout) {
  return layout.interleaved ? 128 : 64;
}

/// A product that makes both parts has its columns in blocks, 64 of the first part and 64 of the
/// second, for 64 columns of H: what it takes for its width, a part's last columns filled up.
constexpr std::int64_t paired_width(std::int64_t h) { return (h + 63) / 64 * 128; }

}  // namespace moesaic::backends::cuda
