// SPDX-License-Identifier: Apache-2.0
// L0: the row range of an expert, from int32 end offsets that may be wrong. `offs` is anything with
// operator[]: a pointer on the device, a bounds-checked span in tests. Only offs[e-1] and offs[e]
// are read for expert e, so one bad entry spoils at most two segments and no other.
#pragma once

#include <cstdint>

#include "math/fault_word.hpp"
#include "math/host_device.hpp"

namespace moesaic::math {

/// Rows [begin, end) of the buffer. An invalid segment is {0, 0}.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] MOESAIC_HD constexpr std::int64_t rows() const { return end - begin; }
  [[nodiscard]] MOESAIC_HD constexpr bool empty() const { return begin == end; }
  bool operator==(const RowRange&) const = default;
};

/// The segment between two raw offsets: valid iff 0 ≤ begin ≤ end ≤ max_rows, else empty.
MOESAIC_HD constexpr RowRange segment_between(std::int64_t begin, std::int64_t end,
                                              std::int64_t max_rows) {
  const bool valid = 0 <= begin && begin <= end && end <= max_rows;
  return valid ? RowRange{begin, end} : RowRange{};
}

/// Rows of `expert` in a buffer of `max_rows` rows. Segments of wrong offsets may overlap one
/// another, but none leaves the buffer.
template <class Offsets>
MOESAIC_HD constexpr RowRange expert_rows(const Offsets& offs, std::int32_t expert,
                                          std::int64_t max_rows) {
  const std::int64_t begin = expert == 0 ? 0 : offs[expert - 1];
  return segment_between(begin, offs[expert], max_rows);
}

/// What is wrong with offs[expert] itself. A start that is wrong is the fault of an earlier expert
/// and is not reported again.
template <class Offsets>
MOESAIC_HD constexpr Fault expert_fault(const Offsets& offs, std::int32_t expert,
                                        std::int64_t max_rows) {
  const std::int32_t end = offs[expert];
  if (end < 0 || end > max_rows) return {FaultKind::offs_out_of_range, expert, end};
  const std::int32_t begin = expert == 0 ? 0 : offs[expert - 1];
  const bool begin_is_good = 0 <= begin && begin <= max_rows;
  if (begin_is_good && end < begin) return {FaultKind::offs_not_monotonic, expert, end};
  return {};
}

/// The fault word of all experts: the lowest bad one, 0 when every offset is good.
template <class Offsets>
MOESAIC_HD constexpr std::uint64_t scan_faults(const Offsets& offs, std::int32_t num_experts,
                                               std::int64_t max_rows) {
  for (std::int32_t expert = 0; expert < num_experts; ++expert) {
    if (const Fault fault = expert_fault(offs, expert, max_rows)) return encode_fault(fault);
  }
  return 0;
}

/// First row past every expert, from the last offset and the last row that a valid segment ends at.
/// With good offsets the two are equal. With wrong ones a valid segment may reach past offs[E-1],
/// and no tail is known when offs[E-1] is wrong itself (the answer is then max_rows), so that
/// zeroing the tail never wipes rows that are someone's.
MOESAIC_HD constexpr std::int64_t tail_begin_after(std::int64_t last_offset,
                                                   std::int64_t last_segment_end,
                                                   std::int64_t max_rows) {
  if (last_offset < 0 || last_offset > max_rows) return max_rows;
  return max(last_offset, last_segment_end);
}

/// The same, read from `offs`; 0 without experts.
template <class Offsets>
MOESAIC_HD constexpr std::int64_t tail_begin(const Offsets& offs, std::int32_t num_experts,
                                             std::int64_t max_rows) {
  if (num_experts == 0) return 0;
  std::int64_t last_end = 0;
  for (std::int32_t expert = 0; expert < num_experts; ++expert) {
    last_end = max(last_end, expert_rows(offs, expert, max_rows).end);
  }
  return tail_begin_after(offs[num_experts - 1], last_end, max_rows);
}

}  // namespace moesaic::math
