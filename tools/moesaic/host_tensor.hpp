// SPDX-License-Identifier: Apache-2.0
// Host memory for operands and results: row gaps and guard bytes on request, poison everywhere that
// nobody has written. What is written into it is operands.hpp's, what is compared compare.hpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "moesaic/device_memory.hpp"
#include "moesaic/tensor.hpp"

namespace moesaic::cli {

/// What nobody has written, again and again: a NaN as BF16, and twice in a row as f32.
inline constexpr std::uint16_t kPoison = 0xFFC3;

/// How a tensor lies in its allocation.
struct TensorLayout {
  std::int64_t row_gap = 0;       ///< Elements between the end of a row and the next.
  std::int64_t guard_bytes = 0;   ///< Before the first element and after the last.
  std::int64_t offset_bytes = 0;  ///< Shift of the first element from a 256-byte boundary.
};

/// A tensor of rank 2 or 3 that owns its memory. The memory is not initialized.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(DType dtype, std::vector<std::int64_t> shape, TensorLayout layout = {});

  [[nodiscard]] TensorView view() const noexcept { return view_; }
  [[nodiscard]] DType dtype() const noexcept { return view_.dtype; }
  [[nodiscard]] std::int64_t rows() const noexcept;   ///< Product of all extents but the last.
  [[nodiscard]] std::int64_t width() const noexcept;  ///< The last extent.
  [[nodiscard]] std::int64_t row_stride() const noexcept { return row_stride_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// The whole allocation, guards and gaps included.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_bytes_}; }
  /// Row `row` of rows(), counted through all leading extents.
  [[nodiscard]] std::byte* row_data(std::int64_t row) const noexcept;
  /// Where rows [begin, end) lie in bytes(), the gaps behind them included.
  [[nodiscard]] ByteRange row_range(std::int64_t begin, std::int64_t end) const noexcept;

  [[nodiscard]] float get(std::int64_t row, std::int64_t column) const noexcept;
  void set(std::int64_t row, std::int64_t column, float value) noexcept;

  /// kPoison into every byte, guards and gaps included.
  void poison();
  /// A copy with the same layout and content.
  [[nodiscard]] HostTensor clone() const;
  /// The content of `other`, which has this tensor's layout.
  void copy_from(const HostTensor& other);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_bytes_ = 0;
  std::int64_t origin_bytes_ = 0;
  std::int64_t row_stride_ = 0;
  TensorView view_{};
};

/// True for an element that nobody has written since poison().
bool is_poison(const std::byte* element, DType dtype) noexcept;

}  // namespace moesaic::cli
