// SPDX-License-Identifier: Apache-2.0
// L0: tiles that are equally long, dealt out in rounds, of which the last may be cut in two.
#pragma once

#include <cstdint>

#include "math/host_device.hpp"
#include "math/integer.hpp"

namespace moesaic::math {

/// Tiles of which the last `halved` are two tiles each, left and right.
struct HalvedTiles {
  std::int64_t whole = 0;
  std::int64_t halved = 0;
  bool operator==(const HalvedTiles&) const = default;

  /// All tiles and halves.
  [[nodiscard]] MOESAIC_HD constexpr std::int64_t pieces() const { return whole + 2 * halved; }
};

/// tiles % workers, for workers below 2^16: in 32 bits, since an int64 one is a function call. The
/// first tile of a launch waits for it.
MOESAIC_HD constexpr std::int64_t last_round(std::int64_t tiles, std::int64_t workers) {
  const auto divisor = static_cast<std::uint32_t>(workers);
  const auto low = static_cast<std::uint32_t>(tiles);
  if (tiles == low) return low % divisor;
  const std::uint32_t high = static_cast<std::uint32_t>(tiles >> 32) % divisor;
  const std::uint32_t two_to_32 = (kMaxOf<std::uint32_t> % divisor + 1) % divisor;
  return (high * two_to_32 + low % divisor) % divisor;
}

/// Tiles of `workers`, which take one each in turns: what is left for the last round is halved
/// where that gives no worker more than one half.
MOESAIC_HD constexpr HalvedTiles halve_last_round(std::int64_t tiles, std::int64_t workers) {
  const std::int64_t rest = last_round(tiles, workers);
  return 2 * rest <= workers ? HalvedTiles{tiles - rest, rest} : HalvedTiles{tiles, 0};
}

/// A tile among all, none halved, and which side of it; −1 for the whole.
struct TilePlace {
  std::int64_t tile = 0;
  int side = -1;
  bool operator==(const TilePlace&) const = default;
};

/// Where an index leads, among the tiles and what follows them.
MOESAIC_HD constexpr TilePlace place_of(const HalvedTiles& tiles, std::int64_t index) {
  const std::int64_t beyond = index - tiles.whole;
  if (beyond < 0) return {index, -1};
  if (beyond < 2 * tiles.halved) return {tiles.whole + (beyond >> 1), static_cast<int>(beyond & 1)};
  return {index - tiles.halved, -1};
}

}  // namespace moesaic::math
