// SPDX-License-Identifier: Apache-2.0
// Tensors and workspaces on the host, as a caller of the C ABI must make them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "moesaic/c_api.h"

namespace moesaic::testing {

inline constexpr moesaic_device kCpu = {moesaic_cpu, 0};

/// `size` elements from a boundary of `alignment` bytes on, in `storage`, which must stay as it is.
template <class T>
T* make_aligned(std::vector<T>& storage, std::size_t size, std::size_t alignment, T fill) {
  storage.assign(size + alignment / sizeof(T), fill);
  const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
  return storage.data() + (alignment - address % alignment) % alignment / sizeof(T);
}

/// A dense f32 or i32 buffer with the view that the ABI wants.
template <class T>
class Array {
 public:
  explicit Array(std::initializer_list<std::int64_t> shape, T fill = T{}) {
    view_.dtype = std::is_same_v<T, float> ? moesaic_f32 : moesaic_i32;
    view_.rank = static_cast<std::int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), view_.shape);
    for (int axis = view_.rank - 1; axis >= 0; --axis) {
      view_.stride[axis] = size_;
      size_ *= view_.shape[axis];
    }
    view_.data = data_ = make_aligned(storage_, static_cast<std::size_t>(size_), 64, fill);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T& operator[](std::int64_t index) { return data_[index]; }
  [[nodiscard]] const moesaic_tensor& view() const { return view_; }
  void set(std::initializer_list<T> values) { std::copy(values.begin(), values.end(), data_); }
  void fill_small_integers(unsigned seed) {
    for (std::int64_t i = 0; i < size_; ++i) {
      seed = seed * 1664525U + 1013904223U;
      data_[i] = static_cast<T>(static_cast<int>(seed >> 28) - 8);
    }
  }

 private:
  std::vector<T> storage_;
  T* data_ = nullptr;
  std::int64_t size_ = 1;
  moesaic_tensor view_{};
};

/// 256-byte aligned and zeroed.
class Scratch {
 public:
  explicit Scratch(std::size_t size_bytes)
      : workspace_{make_aligned(storage_, size_bytes, 256, std::uint8_t{0}), size_bytes} {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const moesaic_workspace* get() const { return &workspace_; }

 private:
  std::vector<std::uint8_t> storage_;
  moesaic_workspace workspace_{};
};

}  // namespace moesaic::testing
