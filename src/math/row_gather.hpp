// SPDX-License-Identifier: Apache-2.0
// L0: how 128 threads copy BF16 rows that lie anywhere into panels of shared memory with the
// 128-byte swizzle: what one copy box would write if the rows were neighbours. A panel has 64
// columns of `lines` rows. In a pass every thread copies 16 bytes, and eight threads side by side
// have a line.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/output_panel.hpp"
#include "math/smem_layout.hpp"

namespace moesaic::math {

inline constexpr std::int32_t kGatherThreads = 128;
inline constexpr std::int32_t kGatherBytes = 16;                ///< Of one copy.
inline constexpr std::int32_t kGatherElems = kGatherBytes / 2;  ///< BF16 columns of one copy.
inline constexpr std::int32_t kGatherChunks = kPanelLineBytes / kGatherBytes;  ///< Of a line.
inline constexpr std::int32_t kGatherLines = kGatherThreads / kGatherChunks;   ///< Of a pass.
static_assert(kGatherLines % 8 == 0, "passes are whole atoms apart, so that chunks stand alike");

/// The line of a panel that `thread` copies to in pass `pass`; a panel takes lines / kGatherLines
/// passes.
MOESAIC_HD constexpr std::int32_t gather_line(std::int32_t thread, std::int32_t pass) {
  return thread / kGatherChunks + pass * kGatherLines;
}

/// The first of the eight columns that `thread` copies, in the panel.
MOESAIC_HD constexpr std::int32_t gather_column(std::int32_t thread) {
  return thread % kGatherChunks * kGatherElems;
}

/// Where they go, in bytes from the start of the panel. Passes are kGatherPassBytes apart.
inline constexpr std::uint32_t kGatherPassBytes = kGatherLines * kPanelLineBytes;
MOESAIC_HD constexpr std::uint32_t gather_offset(std::int32_t thread, std::int32_t pass) {
  return panel_chunk(gather_line(thread, 0), thread % kGatherChunks) +
         static_cast<std::uint32_t>(pass) * kGatherPassBytes;
}

// The eight threads of a line need the same index, and a warp has four lines in a pass: each of its
// lanes keeps the index of one line, and asks the lane that keeps another.

/// The line whose index `thread` keeps, of panels of up to 128 lines.
MOESAIC_HD constexpr std::int32_t gather_kept_line(std::int32_t thread) {
  const std::int32_t lane = thread % 32;
  return gather_line(thread - lane, lane / 4) + lane % 4;
}
/// The lane of its own warp that keeps what `thread` needs in pass `pass`.
MOESAIC_HD constexpr std::int32_t gather_keeper(std::int32_t thread, std::int32_t pass) {
  return pass * 4 + thread % 32 / kGatherChunks;
}

/// The index of line `line`, x_rows[begin + line]; −1 for lines from `lines` on, whose index is not
/// read.
template <class Rows>
MOESAIC_HD constexpr std::int32_t gathered_index(const Rows& x_rows, std::int64_t begin,
                                                 std::int32_t line, std::int32_t lines) {
  return line < lines ? x_rows[begin + line] : -1;
}

/// The row that an index names, or −1 for a row of zeros: an index outside of the `num_rows` rows.
MOESAIC_HD constexpr std::int32_t gathered_row(std::int32_t index, std::int32_t num_rows) {
  return 0 <= index && index < num_rows ? index : -1;
}

/// What is read of the eight columns from `column` on; the rest of kGatherBytes becomes zero. The
/// columns, a multiple of eight, end between two copies.
MOESAIC_HD constexpr std::int32_t gathered_bytes(std::int32_t row, std::int32_t column,
                                                 std::int32_t columns) {
  return row >= 0 && column < columns ? kGatherBytes : 0;
}

}  // namespace moesaic::math
