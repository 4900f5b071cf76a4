// SPDX-License-Identifier: Apache-2.0
// The schedule of forward and dgrad, written down a second time from its definition, slowly: which
// rows and columns are tiles of which kind, in which order the pieces follow, and who takes what in
// turns.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "math/row_tile_sequence.hpp"
#include "support/random_offsets.hpp"

namespace moesaic::math {

/// A row of tiles that the contract asks for: rows of one expert.
struct ReferenceTileRow {
  std::int32_t expert = 0;
  std::int64_t begin = 0, rows = 0;  // in the segment
  std::int64_t row_of_expert = 0;    // which of its expert's rows of this kind
  std::int64_t first_of_expert = 0;  // tile rows of this kind before the expert
};

struct ReferenceSchedule {
  explicit ReferenceSchedule(const ScheduleCase& c)
      : segments(reference_segments(c)), spread(c.spread), elastic(c.elastic) {
    while (columns[0] * c.tile_n < c.n) ++columns[0];
    while (columns[1] * c.few_n < c.n) ++columns[1];
    for (std::size_t e = 0; e < segments.size(); ++e) cut_rows(c, static_cast<std::int32_t>(e));
    put_in_order(c.num_workers);
    deal(c.num_workers);
  }

  /// A tile among those of its kind, and its side; −1 for the whole.
  struct Piece {
    RowTileKind kind;
    std::int64_t tile;
    int side;
  };

  std::vector<ReferenceSegment> segments;
  bool spread, elastic;
  std::array<std::vector<ReferenceTileRow>, 2> rows;  // of large tiles; of few rows
  std::vector<std::int64_t> m_tiles;                  // large ones of each expert
  std::array<std::int64_t, 2> columns{};              // of each kind
  std::int64_t halved = 0;                            // tiles that are
  std::vector<Piece> order;                           // by index
  std::int64_t large_in_turns = 0, few_in_turns = 0;
  Turns turns;

  [[nodiscard]] std::int64_t in_turns() const { return large_in_turns + few_in_turns; }

  [[nodiscard]] std::int64_t columns_of(RowTileKind kind) const {
    return columns[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const std::vector<ReferenceTileRow>& rows_of(RowTileKind kind) const {
    return rows[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::int64_t tiles_of(RowTileKind kind) const {
    return static_cast<std::int64_t>(rows_of(kind).size()) * columns_of(kind);
  }
  [[nodiscard]] std::int64_t total() const {
    return tiles_of(RowTileKind::large) + tiles_of(RowTileKind::few);
  }

 private:
  /// An expert from its first row on: whole tiles as long as they are full or too many rows for a
  /// tile of few rows.
  void cut_rows(const ScheduleCase& c, std::int32_t expert) {
    const std::int64_t all = segments[static_cast<std::size_t>(expert)].rows;
    const std::array<std::int64_t, 2> before{static_cast<std::int64_t>(rows[0].size()),
                                             static_cast<std::int64_t>(rows[1].size())};
    for (std::int64_t row = 0; row < all;) {
      const std::int64_t left = all - row;
      const std::size_t few = left < c.tile_m && left <= c.few_m ? 1 : 0;
      const std::int64_t taken = std::min(left, c.tile_m);
      rows[few].push_back({expert, row, taken,
                           static_cast<std::int64_t>(rows[few].size()) - before[few], before[few]});
      row += taken;
    }
    m_tiles.push_back(static_cast<std::int64_t>(rows[0].size()) - before[0]);
  }

  void append(RowTileKind kind, std::int64_t begin, std::int64_t end, bool as_halves) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      if (as_halves) {
        order.push_back({kind, tile, 0});
        order.push_back({kind, tile, 1});
        ++halved;
      } else {
        order.push_back({kind, tile, -1});
      }
    }
  }

  /// Deals the large tiles out in rounds. Where those of a last round that is not full, cut in two,
  /// still give nobody more than one piece, they are cut. Spread, where there are four full rounds
  /// of large ones, as many full rounds of few rows are dealt as there are without those that fill
  /// the last round of large ones, and no more than of these. Elastic, of 16 rounds of large tiles
  /// that are not cut one is not dealt, nor then what is beyond full rounds.
  void put_in_order(std::int64_t num_workers) {
    const std::int64_t large = tiles_of(RowTileKind::large);
    std::int64_t beyond = 0;
    for (std::int64_t tile = 0; tile < large; ++tile) beyond = (beyond + 1) % num_workers;
    const std::int64_t cut = beyond + beyond <= num_workers ? beyond : 0;
    large_in_turns = large - cut;
    if (elastic) {
      std::int64_t rounds = 0;
      while ((rounds + 1) * num_workers <= large - cut) ++rounds;
      if (rounds >= 16) large_in_turns = (rounds - rounds / 16) * num_workers;
    }
    const std::int64_t few = tiles_of(RowTileKind::few);
    // Behind stay two for each worker without a large tile in the last round, or one for each
    // without a half.
    std::int64_t behind = 0;
    for (std::int64_t worker = beyond; beyond > 0 && worker < num_workers; ++worker) {
      if (cut == 0) behind += 2;
      if (cut > 0 && worker >= 2 * cut) behind += 1;
    }
    std::int64_t round = num_workers;
    const bool between = spread && 4 * num_workers <= large - cut;
    for (; between && round <= few - behind && round <= large_in_turns; round += num_workers) {
      few_in_turns = round;
    }
    append(RowTileKind::large, 0, large_in_turns, false);
    append(RowTileKind::few, 0, few_in_turns, false);
    append(RowTileKind::large, large_in_turns, large - cut, false);
    append(RowTileKind::large, large - cut, large, true);
    append(RowTileKind::few, few_in_turns, few, false);
  }

  /// Every W-th large tile, then one that is shared, unasked. Spread, every W-th of few rows too:
  /// of both the one of which the smaller share is dealt, of equal ones the large; every other
  /// worker is one round of large tiles ahead.
  void deal(std::int64_t num_workers) {
    if (!spread) {
      turns = plain_turns(num_workers, large_in_turns);
      return;
    }
    for (std::int64_t worker = 0; worker < num_workers; ++worker) {
      std::vector<std::int64_t> own;
      std::int64_t large = worker, few = worker;
      while (large < large_in_turns || few < few_in_turns) {
        const std::int64_t ahead = large + (worker % 2) * num_workers;
        const bool due = few * large_in_turns < ahead * few_in_turns;
        const bool take_few = few < few_in_turns && (large >= large_in_turns || due);
        std::int64_t& next = take_few ? few : large;
        own.push_back(take_few ? large_in_turns + next : next);
        next += num_workers;
      }
      own.push_back(in_turns() + large - large_in_turns);
      turns.push_back(own);
    }
  }
};

}  // namespace moesaic::math
