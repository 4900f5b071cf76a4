// SPDX-License-Identifier: Apache-2.0
// Non-owning strided views: how callers hand memory to moesaic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "moesaic/device.hpp"
#include "moesaic/dtype.hpp"

namespace moesaic {

/// Read-only view of rank 1 to 3. Strides count elements. The view itself never reads `data`.
struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Device device{};
  int rank = 0;
  std::array<std::int64_t, 3> shape{};
  std::array<std::int64_t, 3> stride{};
};

/// Writable view; converts to the read-only one.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device{};
  int rank = 0;
  std::array<std::int64_t, 3> shape{};
  std::array<std::int64_t, 3> stride{};

  constexpr operator ConstTensorView() const {  // NOLINT(google-explicit-constructor)
    return {data, dtype, device, rank, shape, stride};
  }
};

namespace detail {
/// Fills shape and packed row-major strides; @throws Error{invalid_argument} unless 1 <= rank <= 3,
/// all extents are >= 0 and their product is at most `elements`.
void fill_dense(std::initializer_list<std::int64_t> shape, std::size_t elements, TensorView& view);
}  // namespace detail

/// Packed row-major view of `data` with the given shape.
/// @throws Error{invalid_argument} when the shape needs more elements than `data` has.
template <class T>
TensorView view(std::span<T> data, std::initializer_list<std::int64_t> shape, Device device = {}) {
  TensorView result{data.data(), kDTypeOf<T>, device, 0, {}, {}};
  detail::fill_dense(shape, data.size(), result);
  return result;
}
template <class T>
ConstTensorView view(std::span<const T> data, std::initializer_list<std::int64_t> shape,
                     Device device = {}) {
  TensorView result{nullptr, kDTypeOf<T>, device, 0, {}, {}};
  detail::fill_dense(shape, data.size(), result);
  ConstTensorView constant = result;
  constant.data = data.data();
  return constant;
}

/// "bf16 [128, 64] stride [64, 1] on cpu": for messages.
std::string describe(const ConstTensorView& view);

}  // namespace moesaic
