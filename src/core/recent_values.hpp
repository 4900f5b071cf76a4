// SPDX-License-Identifier: Apache-2.0
// Values that were made of a few words, and may be asked for again soon: a table with one place for
// every hash, where a newer value takes the place of an older one. Not for threads that share it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace moesaic::core {

template <std::size_t kWords, class Value, std::size_t kPlaces>
class RecentValues {
 public:
  using Key = std::array<std::uint64_t, kWords>;
  static_assert((kPlaces & (kPlaces - 1)) == 0, "a power of two");

  /// The value of `key`: the one that is here, or make(). What make() throws leaves nothing here.
  template <class Make>
  const Value& of(const Key& key, const Make& make) {
    Place& place = places_[hash(key) % kPlaces];
    if (!place.taken || place.key != key) {
      place.taken = false;
      place.value = make();
      place.key = key;
      place.taken = true;
    }
    return place.value;
  }

 private:
  struct Place {
    Key key{};
    Value value{};
    bool taken = false;
  };

  static std::size_t hash(const Key& key) {
    // Pointers and sizes differ in few bits, most of them low: every word is spread over all bits.
    constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15U;
    std::uint64_t sum = 0;
    for (const std::uint64_t word : key) {
      sum = (sum ^ word) * kOdd;
      sum ^= sum >> 32;
    }
    return static_cast<std::size_t>(sum);
  }

  std::array<Place, kPlaces> places_{};
};

}  // namespace moesaic::core
