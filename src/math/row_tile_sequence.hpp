// SPDX-License-Identifier: Apache-2.0
// L0: the order in which the tiles of forward and dgrad are handed out, of their numbers alone:
// index → which tile of which kind, whole or half, and the indices that one worker takes. Large
// tiles come first and tiles of few rows last. The first indices are taken in turns, so that
// workers side by side work on tiles side by side; what follows goes to whoever is free.
#pragma once

#include <cstdint>

#include "math/halved_tiles.hpp"
#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// large: tile_m rows; slim: as many, but of the narrower columns that large tiles leave over; few:
/// the rows that either leaves over.
enum class RowTileKind : std::int8_t { large, slim, few };

/// How many there are, and how many of them are taken in turns.
struct RowTileSequence {
  HalvedTiles large, slim;
  std::int64_t large_in_turns = 0, slim_in_turns = 0;  ///< All of them whole.

  /// The first index that is for whoever is free.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t first_shared() const {
    return large_in_turns + slim_in_turns;
  }
  bool operator==(const RowTileSequence&) const = default;
};

/// Columns of tiles of either kind.
struct RowTileColumns {
  std::int64_t large = 0;
  std::int32_t slim = 0;
};

/// Tiles of one width, all equally long: what is not halved is taken in turns.
MOESAIC_HD constexpr RowTileSequence large_sequence(std::int64_t tile_rows,
                                                    const RowTileColumns& columns,
                                                    std::int64_t workers) {
  const HalvedTiles large = halve_last_round(tile_rows * columns.large, workers);
  return {large, {}, large.whole, 0};
}

/// Full rounds of tall tiles that are left to whoever is free, beside what is beyond full rounds.
inline constexpr std::int64_t kSharedRounds = 2;

/// Tall tiles differ in length: an expert's last rows may be fewer, and slim tiles are shorter.
/// What is shared makes up for that (tests/math/tall_makespan_test.cpp): the last rounds, and the
/// slim tiles of as many tile rows, all of which are halved.
MOESAIC_HD constexpr RowTileSequence tall_sequence(std::int64_t tile_rows,
                                                   const RowTileColumns& columns,
                                                   std::int64_t workers) {
  const std::int64_t tiles = tile_rows * columns.large;
  const std::int64_t shared = min(tiles, last_round(tiles, workers) + kSharedRounds * workers);
  RowTileSequence sequence;
  sequence.large = halve_last_round(tiles, workers);
  sequence.large_in_turns = tiles - shared;
  if (sequence.large_in_turns > 0) {
    // In 32 bits: `shared` is below 2^18, and a width that is above is one tile row.
    const auto width = static_cast<std::uint32_t>(min(columns.large, std::int64_t{1} << 18));
    const std::uint32_t rows = ceil_div(static_cast<std::uint32_t>(shared), width);
    sequence.slim_in_turns = (tile_rows - rows) * columns.slim;
  }
  sequence.slim = {sequence.slim_in_turns, tile_rows * columns.slim - sequence.slim_in_turns};
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

/// Indices of large tiles in turns, slim ones in turns, then what is shared: large, slim, few.
MOESAIC_HD constexpr RowTilePlace place_of(const RowTileSequence& sequence, std::int64_t index) {
  const auto of_kind = [](RowTileKind kind, const HalvedTiles& tiles, std::int64_t at) {
    const TilePlace place = place_of(tiles, at);
    return RowTilePlace{kind, place.tile, place.side};
  };
  // Without the slim ones in turns, which come between, large ones are counted through.
  std::int64_t at = index;
  if (at >= sequence.large_in_turns) {
    if (at < sequence.first_shared()) {
      return {RowTileKind::slim, at - sequence.large_in_turns, -1};
    }
    at -= sequence.slim_in_turns;
  }
  if (at < sequence.large.pieces()) return of_kind(RowTileKind::large, sequence.large, at);
  at -= sequence.large.pieces();
  const std::int64_t shared_slim = sequence.slim.pieces() - sequence.slim_in_turns;
  if (shared_slim > 0 && at < shared_slim) {
    return of_kind(RowTileKind::slim, sequence.slim, at + sequence.slim_in_turns);
  }
  return {RowTileKind::few, at - shared_slim, -1};
}

/// The indices that one worker takes. In turns: every W-th large tile and every W-th slim one, the
/// slim ones as soon as the large tiles of their rows are due, whose operands are then in L2.
class RowTurns {
 public:
  MOESAIC_HD constexpr RowTurns(const RowTileSequence& sequence, const RowTileColumns& columns,
                                std::int64_t workers, std::int64_t worker)
      : sequence_(sequence),
        columns_(columns),
        workers_(workers),
        worker_(worker),
        large_(worker),
        slim_(worker) {
    settle();
  }

  [[nodiscard]] MOESAIC_HD constexpr std::int64_t index() const { return index_; }
  /// Whether the next index is for whoever is free.
  [[nodiscard]] MOESAIC_HD constexpr bool shared() const {
    return index_ >= sequence_.first_shared();
  }
  /// Goes on. `taken`: how many asked for a shared index before; read where shared().
  MOESAIC_HD constexpr void advance(std::int64_t taken) {
    if (shared()) {  // one for each worker is taken unasked
      index_ = sequence_.first_shared() + workers_ + taken;
    } else if (columns_.slim == 0) {
      index_ += workers_;
    } else {
      (index_ < sequence_.large_in_turns ? large_ : slim_) += workers_;
      settle();
    }
  }

 private:
  MOESAIC_HD constexpr void settle() {
    if (columns_.slim == 0) {
      index_ = large_;
      return;
    }
    const bool large = large_ < sequence_.large_in_turns;
    const bool slim = slim_ < sequence_.slim_in_turns;
    const bool slim_is_due = slim_ * columns_.large < large_ * columns_.slim;
    if (large && !(slim && slim_is_due)) {
      index_ = large_;
    } else if (slim) {
      index_ = sequence_.large_in_turns + slim_;
    } else {
      index_ = sequence_.first_shared() + worker_;
    }
  }

  RowTileSequence sequence_;
  RowTileColumns columns_;
  std::int64_t workers_, worker_;
  std::int64_t index_ = 0;
  std::int64_t large_, slim_;  // next in turns
};

}  // namespace moesaic::math
