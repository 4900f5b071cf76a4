// SPDX-License-Identifier: Apache-2.0
// Seeded draws that are the same with every standard library: distributions of <random> are not.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace moesaic::cli::experiment {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in 0 to bound - 1, without bias.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t excess = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t draw = engine_();
    while (draw < excess) draw = engine_();
    return draw % bound;
  }
  /// Uniform in the open interval (0, 1).
  double unit() { return (static_cast<double>(engine_() >> 12) + 0.5) * 0x1p-52; }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i-- > 1;) std::swap(values[i], values[below(i + 1)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace moesaic::cli::experiment
