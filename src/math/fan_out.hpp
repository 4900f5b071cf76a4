// SPDX-License-Identifier: Apache-2.0
// L0: dispatch by fan-out. A token's row travels once to each rank that is to have it, into the row
// of the first of its routes there; that rank copies it to the rows of the others, of which the
// source has told it. Maps are anything with operator[].
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/route_fault.hpp"

namespace moesaic::math {

/// Whether one of the first `slots` routes of a token, which begin at `first_route`, moves a row to
/// `rank`: then that one carries the row there, and no later one does.
template <class Map>
MOESAIC_HD constexpr bool reaches_rank(const Map& ranks, const Map& rows, std::int64_t first_route,
                                       std::int32_t slots, std::int32_t rank,
                                       std::int64_t max_rows) {
  for (std::int64_t route = first_route; route < first_route + slots; ++route) {
    if (ranks[route] == rank && moves_row(rank, rows[route], rank + 1, max_rows)) return true;
  }
  return false;
}

/// What a source tells rank `to` of one of its routes: the row that it has there, −1 for none.
MOESAIC_HD constexpr std::int32_t told_row(std::int32_t rank, std::int32_t row, std::int32_t to,
                                           std::int64_t max_rows) {
  return rank == to && moves_row(rank, row, to + 1, max_rows) ? row : -1;
}

/// What a source tells of a call: how many tokens it has, and whether their rows are to be weighted
/// where they arrive. One word: −1 − count where they are.
struct ToldTokens {
  std::int32_t count = 0;
  bool weighted = false;
  bool operator==(const ToldTokens&) const = default;
};
MOESAIC_HD constexpr std::int32_t encode_told_tokens(const ToldTokens& tokens) {
  return tokens.weighted ? -1 - tokens.count : tokens.count;
}
MOESAIC_HD constexpr ToldTokens decode_told_tokens(std::int32_t word) {
  return word < 0 ? ToldTokens{-1 - word, true} : ToldTokens{word, false};
}

/// Where a rank keeps what the sources told it, in 32-bit words: of every route its row and (for
/// weighted dispatch) its probability, of every source the number of its tokens. All of it twice:
/// a source may be one call ahead of a rank that still copies, not two, since the barrier between
/// rows and copies lies between.
struct FanOutLayout {
  std::int32_t num_ranks = 1;
  std::int64_t max_routes = 0;  ///< T · topk

  [[nodiscard]] MOESAIC_HD constexpr std::int64_t rows_index(std::uint32_t turn,
                                                             std::int32_t source) const {
    return (static_cast<std::int64_t>(turn) * num_ranks + source) * max_routes;
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t probs_index(std::uint32_t turn,
                                                              std::int32_t source) const {
    return rows_index(2, 0) + rows_index(turn, source);
  }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t tokens_index(std::uint32_t turn,
                                                               std::int32_t source) const {
    return 2 * rows_index(2, 0) + static_cast<std::int64_t>(turn) * num_ranks + source;
  }
  /// Two words of the rank itself: calls whose copies are made, and calls whose rows are sent.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t calls_index() const { return tokens_index(2, 0); }
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t words() const { return calls_index() + 2; }
};

}  // namespace moesaic::math
