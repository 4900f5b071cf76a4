// SPDX-License-Identifier: Apache-2.0
// Host tensors for tests: a view in the middle of a larger allocation that is NaN everywhere else,
// so that a stray read poisons a result and a stray write is found.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "moesaic/dtype.hpp"
#include "moesaic/tensor.hpp"

namespace moesaic::testing {

/// How a tensor lies in its allocation, in elements.
struct Layout {
  std::int64_t row_padding = 0;     ///< Between rows; multiple of 8.
  std::int64_t expert_padding = 0;  ///< Between experts; multiple of 8.
  std::int64_t guard = 64;          ///< Before and behind everything.
  std::int64_t shift = 0;  ///< Of the first element from a 64-byte boundary; multiple of 8.
};

inline constexpr Layout kDense{};
inline constexpr Layout kScattered{24, 40, 136, 8};

class HostTensor {
 public:
  HostTensor() = default;
  /// [rows, columns] when experts is 0, else [experts, rows, columns]. All bytes are 0xFF: NaN.
  HostTensor(DType dtype, std::int64_t experts, std::int64_t rows, std::int64_t columns,
             const Layout& layout = kDense)
      : dtype_(dtype), experts_(experts), rows_(rows), columns_(columns) {
    row_stride_ = columns + layout.row_padding;
    expert_stride_ = rows * row_stride_ + layout.expert_padding;
    const std::int64_t element = size_bytes(dtype);
    const std::int64_t body = (experts == 0 ? 1 : experts) * expert_stride_;
    const std::int64_t bytes = (body + 2 * layout.guard + layout.shift) * element + 128;
    storage_.assign(static_cast<std::size_t>(bytes), std::byte{0xFF});
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    const auto aligned = static_cast<std::int64_t>((64 - address % 64) % 64);
    const std::int64_t guard_bytes = (layout.guard * element + 63) / 64 * 64;
    first_ = aligned + guard_bytes + layout.shift * element;
  }
  // Copies would lie elsewhere relative to a 64-byte boundary.
  HostTensor(const HostTensor&) = delete;
  HostTensor& operator=(const HostTensor&) = delete;
  HostTensor(HostTensor&&) noexcept = default;
  HostTensor& operator=(HostTensor&&) noexcept = default;
  ~HostTensor() = default;

  [[nodiscard]] std::int64_t experts() const { return experts_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] DType dtype() const { return dtype_; }

  [[nodiscard]] TensorView view() {
    TensorView view{storage_.data() + first_, dtype_, Device{}, 2, {rows_, columns_, 0},
                    {row_stride_, 1, 0}};
    if (experts_ > 0) {
      view.rank = 3;
      view.shape = {experts_, rows_, columns_};
      view.stride = {expert_stride_, row_stride_, 1};
    }
    return view;
  }
  [[nodiscard]] ConstTensorView view() const { return const_cast<HostTensor*>(this)->view(); }

  [[nodiscard]] double get(std::int64_t expert, std::int64_t row, std::int64_t column) const {
    const std::byte* from = storage_.data() + offset(expert, row, column);
    if (dtype_ == DType::f32) {
      float value = 0;
      std::memcpy(&value, from, sizeof(value));
      return value;
    }
    BFloat16 value;
    std::memcpy(&value, from, sizeof(value));
    return static_cast<float>(value);
  }
  /// `value` is rounded to the type once, through float.
  void set(std::int64_t expert, std::int64_t row, std::int64_t column, double value) {
    std::byte* to = storage_.data() + offset(expert, row, column);
    const auto single = static_cast<float>(value);
    if (dtype_ == DType::f32) {
      std::memcpy(to, &single, sizeof(single));
      return;
    }
    const BFloat16 narrow(single);
    std::memcpy(to, &narrow, sizeof(narrow));
  }
  [[nodiscard]] std::uint32_t bits(std::int64_t expert, std::int64_t row,
                                   std::int64_t column) const {
    std::uint32_t value = 0;
    std::memcpy(&value, storage_.data() + offset(expert, row, column),
                static_cast<std::size_t>(size_bytes(dtype_)));
    return value;
  }
  void fill(double value) {
    for (std::int64_t expert = 0; expert < (experts_ == 0 ? 1 : experts_); ++expert) {
      fill_rows(expert, 0, rows_, value);
    }
  }
  void fill_rows(std::int64_t expert, std::int64_t begin, std::int64_t end, double value) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < columns_; ++column) {
        set(expert, row, column, value);
      }
    }
  }

  [[nodiscard]] std::vector<std::byte> snapshot() const { return storage_; }
  /// Where bytes differ from `before` that belong to no element with may_change(expert, row,
  /// column); empty when there are none.
  template <class MayChange>
  [[nodiscard]] std::string stray_change(const std::vector<std::byte>& before,
                                         const MayChange& may_change) const {
    std::vector<std::byte> expected = before;
    const auto width = static_cast<std::size_t>(size_bytes(dtype_));
    for (std::int64_t expert = 0; expert < (experts_ == 0 ? 1 : experts_); ++expert) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        for (std::int64_t column = 0; column < columns_; ++column) {
          if (may_change(expert, row, column)) {
            const std::size_t at = offset(expert, row, column);
            std::memcpy(expected.data() + at, storage_.data() + at, width);
          }
        }
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] != storage_[i]) {
        const std::int64_t element =
            (static_cast<std::int64_t>(i) - first_) / static_cast<std::int64_t>(width);
        return "byte " + std::to_string(i) + " changed, element " + std::to_string(element) +
               " from the first, row stride " + std::to_string(row_stride_);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t offset(std::int64_t expert, std::int64_t row,
                                   std::int64_t column) const {
    return static_cast<std::size_t>(
        first_ + (expert * expert_stride_ + row * row_stride_ + column) * size_bytes(dtype_));
  }

  DType dtype_ = DType::f32;
  std::int64_t experts_ = 0, rows_ = 0, columns_ = 0;
  std::int64_t row_stride_ = 0, expert_stride_ = 0, first_ = 0;
  std::vector<std::byte> storage_;
};

/// The first element where the bits differ, in words; empty when equal.
inline std::string bit_difference(const HostTensor& got, const HostTensor& want) {
  if (got.experts() != want.experts() || got.rows() != want.rows() ||
      got.columns() != want.columns() || got.dtype() != want.dtype()) {
    return "shapes or types differ";
  }
  for (std::int64_t expert = 0; expert < (got.experts() == 0 ? 1 : got.experts()); ++expert) {
    for (std::int64_t row = 0; row < got.rows(); ++row) {
      for (std::int64_t column = 0; column < got.columns(); ++column) {
        if (got.bits(expert, row, column) != want.bits(expert, row, column)) {
          return "(" + std::to_string(expert) + ", " + std::to_string(row) + ", " +
                 std::to_string(column) + "): got " + std::to_string(got.get(expert, row, column)) +
                 ", want " + std::to_string(want.get(expert, row, column));
        }
      }
    }
  }
  return {};
}

}  // namespace moesaic::testing
