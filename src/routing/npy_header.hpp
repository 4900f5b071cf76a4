// SPDX-License-Identifier: Apache-2.0
// The header of a NumPy .npy array and the decoding of its integers. Source:
// numpy.lib.format, 1.0-3.0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "routing/input.hpp"

namespace moesaic::routing {

struct NpyHeader {
  char kind = 'i';  ///< NumPy's: 'i', 'u', 'b', 'f', 'U', 'O', …
  std::int64_t item_bytes = 0;
  bool big_endian = false;
  bool fortran_order = false;
  std::string dtype;  ///< As written: "<i4".
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t elements() const;  ///< Product of the shape; known not to overflow.
  [[nodiscard]] bool integer() const noexcept { return kind == 'i' || kind == 'u'; }
  [[nodiscard]] std::string shape_text() const;  ///< "[4, 2]"
};

/// Reads the header; `input` then stands at the first element. Checks that shape x item size fits
/// 63 bits and, where the file's size is known, the file.
[[nodiscard]] NpyHeader read_npy_header(Input& input);

/// Reads integers one after another, whatever their width and byte order.
class NpyIntegers {
 public:
  /// Whether floating point that holds whole numbers is read as well.
  enum class Floats { refuse, whole };
  /// Refuses a dtype that is not an integer of 1, 2, 4 or 8 bytes (nor, if wanted, a float of 4 or
  /// 8); `what` says what it should be.
  NpyIntegers(Input& input, const NpyHeader& header, std::string_view what,
              Floats floats = Floats::refuse);
  /// Fills `to`; a value past 2^63 - 1, a fraction or NaN is refused.
  void read(std::span<std::int64_t> to);

 private:
  [[nodiscard]] std::int64_t decode(const unsigned char* bytes) const;
  [[nodiscard]] std::int64_t whole_number(std::uint64_t raw) const;
  [[nodiscard]] std::string place() const;
  Input& input_;
  std::size_t width_;
  bool is_signed_, is_float_, big_endian_, fortran_order_;
  std::vector<std::int64_t> shape_;
  std::string what_;
  std::int64_t element_ = 0;
  std::vector<char> buffer_;
};

}  // namespace moesaic::routing
