// SPDX-License-Identifier: Apache-2.0
// Building and describing tensor views.

#include "moesaic/tensor.hpp"

#include <string>

#include "core/message.hpp"

namespace moesaic {
namespace {

std::string list(const std::array<std::int64_t, 3>& values, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[static_cast<std::size_t>(i)]);
  }
  return text + "]";
}

}  // namespace

std::string describe(const ConstTensorView& view) {
  const int rank = view.rank < 0 ? 0 : (view.rank > 3 ? 3 : view.rank);
  if (rank == 0) {
    return "an empty view";
  }
  return std::string(name(view.dtype)) + " " + list(view.shape, rank) + " stride " +
         list(view.stride, rank) + " on " + to_string(view.device);
}

void detail::fill_dense(std::initializer_list<std::int64_t> shape, std::size_t elements,
                        TensorView& view) {
  if (shape.size() < 1 || shape.size() > 3) {
    core::refuse("shape", "1 to 3 extents", std::to_string(shape.size()));
  }
  view.rank = static_cast<int>(shape.size());
  std::size_t axis = 0;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      core::refuse("shape", "extents of at least 0", std::to_string(extent));
    }
    view.shape[axis++] = extent;
  }
  std::int64_t needed = 1;
  for (std::size_t i = axis; i-- > 0;) {
    view.stride[i] = needed;
    if (__builtin_mul_overflow(needed, view.shape[i], &needed)) {
      core::refuse("shape", "fewer than 2^63 elements", list(view.shape, view.rank));
    }
  }
  if (static_cast<std::size_t>(needed) > elements) {
    core::refuse(
        "data",
        "at least " + std::to_string(needed) + " elements for shape " + list(view.shape, view.rank),
        std::to_string(elements));
  }
}

}  // namespace moesaic
