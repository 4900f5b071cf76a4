// SPDX-License-Identifier: Apache-2.0
// Element types and the host's BF16 value.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

namespace moesaic {

/// Type of one element. f8_e4m3 and e8m0 keep the place of MXFP8; no product takes them yet.
enum class DType : std::uint8_t { f32, bf16, f8_e4m3, e8m0, i32 };

/// Bytes of one element.
constexpr std::int64_t size_bytes(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::f8_e4m3:
    case DType::e8m0:
      return 1;
  }
  return 0;
}

/// "f32", "bf16", "f8_e4m3", "e8m0" or "i32".
constexpr std::string_view name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f8_e4m3:
      return "f8_e4m3";
    case DType::e8m0:
      return "e8m0";
    case DType::i32:
      return "i32";
  }
  return "unknown";
}

/// A BF16 value on the host: the upper half of an IEEE single. Storage only; compute in float.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN (quiet), overflow goes to infinity.
  constexpr explicit BFloat16(float value) noexcept : bits(round(value)) {}
  static constexpr BFloat16 from_bits(std::uint16_t bits) noexcept {
    BFloat16 value;
    value.bits = bits;
    return value;
  }
  constexpr explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  bool operator==(const BFloat16&) const = default;  ///< Compares bits, so NaN == NaN.

 private:
  static constexpr std::uint16_t round(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    if ((wide & 0x7FFFFFFFU) > 0x7F800000U) {
      return static_cast<std::uint16_t>((wide >> 16) | 0x40U);
    }
    return static_cast<std::uint16_t>((wide + 0x7FFFU + ((wide >> 16) & 1U)) >> 16);
  }
};
static_assert(sizeof(BFloat16) == 2);

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::f32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType kValue = DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType kValue = DType::i32;
};
}  // namespace detail

/// The DType that stores the C++ type T (float, BFloat16, std::int32_t).
template <class T>
inline constexpr DType kDTypeOf = detail::DTypeOf<T>::kValue;

}  // namespace moesaic
