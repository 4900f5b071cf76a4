// SPDX-License-Identifier: Apache-2.0
// L0: the order in which the tiles of forward and dgrad are handed out, of their numbers alone:
// index → which tile of which kind, whole or half, and the indices that one worker takes. Large
// tiles come first and tiles of few rows last. The first indices are taken in turns, so that
// workers side by side work on tiles side by side; what follows goes to whoever is free. Spread,
// tiles of few rows are taken in turns too, between the large ones: the former wait for memory,
// the latter for the tensor cores, and one after the other they would take the sum of both.
#pragma once

#include <cstdint>

#include "math/halved_tiles.hpp"
#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// large: tile_m rows; few: the rows that large tiles leave over.
enum class RowTileKind : std::int8_t { large, few };

/// How many there are, and how many of them are taken in turns.
struct RowTileSequence {
  HalvedTiles large;
  std::int64_t large_in_turns = 0;  ///< All of them whole.
  std::int64_t few_in_turns = 0;

  /// The first index that is for whoever is free.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t first_shared() const {
    return large_in_turns + few_in_turns;
  }
  bool operator==(const RowTileSequence&) const = default;
};

/// Columns of large tiles, and how those of either kind are dealt out.
struct RowTileColumns {
  std::int64_t large = 0;
  bool spread = false;   ///< Tiles of few rows come between large ones.
  bool elastic = false;  ///< The last of the large ones go to whoever is free.
};

/// Elastic: one round in 2^so many is left to whoever is free, since where power is short SMs are
/// not equally fast (NB-0015).
inline constexpr int kElasticShift = 4;

/// Of tiles that are equally long: those that are taken in turns all the same. All of them where
/// there are less than 2^kElasticShift rounds, else full rounds. What needs a division comes last,
/// since small launches wait for it.
MOESAIC_HD constexpr std::int64_t elastic_turns(std::int64_t tiles, std::int64_t workers) {
  const std::int64_t late = tiles >> kElasticShift;
  if (late < workers) return tiles;
  return tiles - last_round(tiles, workers) - (late - last_round(late, workers));
}

/// Spread: the least full rounds of large tiles that tiles of few rows come between. Of one or two
/// all wait for memory together, and whoever begins with few rows ends late (NB-0016).
inline constexpr int kSpreadRounds = 4;

/// All large tiles are equally long: what is not halved is taken in turns, elastic but for the last
/// rounds. Spread, full rounds of `few` tiles of few rows are too, at most one for each full round
/// of large ones, without those that fill what the last round leaves idle: two beside a large tile,
/// one beside a half (tests/math/spread_makespan_test.cpp).
MOESAIC_HD constexpr RowTileSequence large_sequence(std::int64_t tile_rows,
                                                    const RowTileColumns& columns,
                                                    std::int64_t workers, std::int64_t few = 0) {
  const HalvedTiles large = halve_last_round(tile_rows * columns.large, workers);
  RowTileSequence sequence{large, large.whole, 0};
  if (columns.elastic) {
    sequence.large_in_turns = elastic_turns(large.whole, workers);
  }
  if (columns.spread && few >= workers && large.whole >= kSpreadRounds * workers) {
    const std::int64_t rest = last_round(large.whole, workers);
    const std::int64_t idle = rest > 0           ? 2 * (workers - rest)
                              : large.halved > 0 ? workers - 2 * large.halved
                                                 : 0;
    const std::int64_t early = max<std::int64_t>(few - idle, 0);
    sequence.few_in_turns =
        min(early - last_round(early, workers), min(sequence.large_in_turns, large.whole - rest));
  }
  return sequence;
}

/// Where an index leads: a tile among all of its kind, none halved, and which side of it; −1 for
/// the whole.
struct RowTilePlace {
  RowTileKind kind = RowTileKind::large;
  std::int64_t tile = 0;
  int side = -1;
  bool operator==(const RowTilePlace&) const = default;
};

/// Indices of large tiles in turns, of few rows in turns, then what is shared: large, few.
MOESAIC_HD constexpr RowTilePlace place_of(const RowTileSequence& sequence, std::int64_t index) {
  // Without the others in turns, which come between, large ones are counted through.
  std::int64_t at = index;
  if (at >= sequence.large_in_turns) {
    if (at < sequence.first_shared()) {
      return {RowTileKind::few, at - sequence.large_in_turns, -1};
    }
    at -= sequence.few_in_turns;
  }
  if (at < sequence.large.pieces()) {
    const TilePlace place = place_of(sequence.large, at);
    return {RowTileKind::large, place.tile, place.side};
  }
  return {RowTileKind::few, at - sequence.large.pieces() + sequence.few_in_turns, -1};
}

/// The indices that one worker takes. In turns: every W-th large tile and, spread, every W-th tile
/// of few rows, as evenly as there are large ones: of all workers at no time more than their share,
/// and of neighbours not both at once where each has one between any two large tiles.
class RowTurns {
 public:
  MOESAIC_HD constexpr RowTurns(const RowTileSequence& sequence, const RowTileColumns& columns,
                                std::int64_t workers, std::int64_t worker)
      : sequence_(sequence),
        columns_(columns),
        workers_(workers),
        worker_(worker),
        large_(worker),
        few_(worker) {
    settle();
  }

  [[nodiscard]] MOESAIC_HD constexpr std::int64_t index() const { return index_; }
  /// Whether the next index is for whoever is free.
  [[nodiscard]] MOESAIC_HD constexpr bool shared() const {
    return index_ >= sequence_.first_shared();
  }
  /// Whether every worker has a large tile in turns like the next one of this.
  [[nodiscard]] MOESAIC_HD constexpr bool full_round() const {
    return index_ - worker_ + workers_ <= sequence_.large_in_turns;
  }
  /// Goes on. `taken`: how many asked for a shared index before; read where shared().
  MOESAIC_HD constexpr void advance(std::int64_t taken) {
    if (shared()) {  // one for each worker is taken unasked
      index_ = sequence_.first_shared() + workers_ + taken;
    } else if (!mixed()) {
      index_ += workers_;
    } else {
      (index_ < sequence_.large_in_turns ? large_ : few_) += workers_;
      settle();
    }
  }

 private:
  /// Whether two kinds are taken in turns: `spread` is known to the compiler.
  [[nodiscard]] MOESAIC_HD constexpr bool mixed() const {
    return columns_.spread && sequence_.few_in_turns > 0;
  }
  [[nodiscard]] MOESAIC_HD constexpr bool few_is_due() const {
    const std::int64_t ahead = worker_ % 2 != 0 ? workers_ : 0;
    return few_ * sequence_.large_in_turns < (large_ + ahead) * sequence_.few_in_turns;
  }

  MOESAIC_HD constexpr void settle() {
    if (!mixed()) {
      index_ = large_;
      return;
    }
    const bool large = large_ < sequence_.large_in_turns;
    const bool few = few_ < sequence_.few_in_turns;
    if (large && !(few && few_is_due())) {
      index_ = large_;
    } else if (few) {
      index_ = sequence_.large_in_turns + few_;
    } else {
      index_ = sequence_.first_shared() + large_ - sequence_.large_in_turns;  // who is done first
    }
  }

  RowTileSequence sequence_;
  RowTileColumns columns_;
  std::int64_t workers_, worker_;
  std::int64_t index_ = 0;
  std::int64_t large_, few_;  // next in turns
};

}  // namespace moesaic::math
