// SPDX-License-Identifier: Apache-2.0
// L0: what is wrong with one route of expert parallelism, and its packing into one 64-bit word that
// an atomic maximum keeps lowest-route-first. A route is token · topk + slot of its source rank.
#pragma once

#include <concepts>
#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// The numbers are part of the word, hence of the workspace format.
enum class RouteFaultKind : std::uint32_t {
  none = 0,
  expert_out_of_range = 1,  ///< An expert id ≥ E. (A negative one is no route and no fault.)
  rank_out_of_range = 2,    ///< A rank of a route map ≥ R.
  row_out_of_range = 3,     ///< A row of a route map ≥ M in a PUT.
};

struct RouteFault {
  RouteFaultKind kind = RouteFaultKind::none;
  std::int32_t route = -1;  ///< 0 … kMaxRoute, −1 for none.
  std::int32_t value = 0;   ///< The offending id, rank or row; never negative.

  MOESAIC_HD constexpr explicit operator bool() const { return kind != RouteFaultKind::none; }
  bool operator==(const RouteFault&) const = default;
};

inline constexpr std::int32_t kMaxRoute = 0x7FFFFFFF;

/// ((2³¹ − 1 − route) << 33) | (kind << 31) | value; 0 for no fault. A lower route always gives the
/// larger word.
MOESAIC_HD constexpr std::uint64_t encode_route_fault(const RouteFault& fault) {
  if (!fault) return 0;
  return (static_cast<std::uint64_t>(kMaxRoute - fault.route) << 33) |
         (static_cast<std::uint64_t>(fault.kind) << 31) | static_cast<std::uint32_t>(fault.value);
}

/// The inverse of encode_route_fault().
MOESAIC_HD constexpr RouteFault decode_route_fault(std::uint64_t word) {
  if (word == 0) return {};
  return {static_cast<RouteFaultKind>((word >> 31) & 3u),
          kMaxRoute - static_cast<std::int32_t>(word >> 33),
          static_cast<std::int32_t>(word & 0x7FFFFFFFu)};
}

/// What an atomic maximum leaves behind: the fault of the lowest route, of the highest kind when
/// operations on one workspace find several faults in it. The order does not matter.
MOESAIC_HD constexpr std::uint64_t combine_route_faults(std::uint64_t a, std::uint64_t b) {
  return max(a, b);
}

/// The fault of an expert id. `Id` is any signed integer; a value that no int32 holds is reported
/// as the largest one.
template <std::signed_integral Id>
MOESAIC_HD constexpr RouteFault expert_id_fault(Id id, std::int32_t num_experts,
                                                std::int32_t route) {
  if (id < num_experts) return {};
  const std::int64_t value = min<std::int64_t>(id, kMaxOf<std::int32_t>);
  return {RouteFaultKind::expert_out_of_range, route, static_cast<std::int32_t>(value)};
}

/// How an entry of the route maps is used: PUT writes a peer's row, GET reads it.
enum class Transfer : std::uint8_t { put, get };

/// Whether the row of a route map is to be moved: a negative rank or row is no route, one that is
/// out of range is never touched.
MOESAIC_HD constexpr bool moves_row(std::int32_t rank, std::int32_t row, std::int32_t num_ranks,
                                    std::int64_t max_rows) {
  return 0 <= rank && rank < num_ranks && 0 <= row && row < max_rows;
}

/// What is wrong with an entry of the route maps. GET masks a row that is out of range, without a
/// fault: a map may name rows that a smaller buffer does not have.
MOESAIC_HD constexpr RouteFault map_fault(std::int32_t rank, std::int32_t row,
                                          std::int32_t num_ranks, std::int64_t max_rows,
                                          std::int32_t route, Transfer transfer) {
  if (rank < 0 || row < 0) return {};
  if (rank >= num_ranks) return {RouteFaultKind::rank_out_of_range, route, rank};
  if (row >= max_rows && transfer == Transfer::put) {
    return {RouteFaultKind::row_out_of_range, route, row};
  }
  return {};
}

}  // namespace moesaic::math
