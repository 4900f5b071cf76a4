// SPDX-License-Identifier: Apache-2.0
// Host memory for operands: aligned, seeded, and poisoned before a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "moesaic/tensor.hpp"

namespace moesaic::bench {

/// A packed row-major tensor of BF16 or FP32 that owns its memory.
class HostTensor {
 public:
  HostTensor() = default;
  /// Content is undefined until filled.
  HostTensor(DType dtype, std::initializer_list<std::int64_t> shape);

  [[nodiscard]] const TensorView& view() const noexcept { return view_; }
  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }

  /// Uniform in [-scale, scale]; the same seed gives the same values everywhere.
  void fill(std::uint64_t seed, float scale);
  /// NaN everywhere, so that an element that nobody wrote cannot pass a check.
  void poison();

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  TensorView view_{};
  std::int64_t elements_ = 0;
};

/// SplitMix64 (Steele, Lea, Flood 2014): one step of a counter-based generator.
std::uint64_t mix(std::uint64_t value) noexcept;

/// End rows of the experts.
/// @throws Error{invalid_argument} past 2^31 - 1 rows.
std::vector<std::int32_t> end_offsets(const std::vector<std::int64_t>& counts);

}  // namespace moesaic::bench
