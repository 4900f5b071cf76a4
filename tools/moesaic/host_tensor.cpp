// SPDX-License-Identifier: Apache-2.0
// Host memory for operands and results.
#include "host_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "machine.hpp"

namespace moesaic::cli {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

HostTensor::HostTensor(DType dtype, std::vector<std::int64_t> shape, TensorLayout layout) {
  view_.dtype = dtype;
  view_.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view_.shape.begin());
  row_stride_ = shape.back() + layout.row_gap;
  view_.stride[shape.size() - 1] = 1;
  if (shape.size() > 1) view_.stride[shape.size() - 2] = row_stride_;
  if (shape.size() > 2) view_.stride[0] = row_stride_ * shape[1];
  origin_bytes_ = round_up(layout.guard_bytes, kAlignment) + layout.offset_bytes;
  const std::int64_t payload = rows() * row_stride_ * moesaic::size_bytes(dtype);
  size_bytes_ =
      static_cast<std::size_t>(round_up(origin_bytes_ + payload + layout.guard_bytes, kAlignment));
  void* memory = std::aligned_alloc(static_cast<std::size_t>(kAlignment),
                                    std::max<std::size_t>(size_bytes_, kAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  memory_.reset(static_cast<std::byte*>(memory));
  view_.data = memory_.get() + origin_bytes_;
}

std::int64_t HostTensor::rows() const noexcept {
  std::int64_t count = view_.rank > 0 ? 1 : 0;
  for (int i = 0; i + 1 < view_.rank; ++i) count *= view_.shape[static_cast<std::size_t>(i)];
  return count;
}

std::int64_t HostTensor::width() const noexcept {
  return view_.rank > 0 ? view_.shape[static_cast<std::size_t>(view_.rank - 1)] : 0;
}

std::byte* HostTensor::row_data(std::int64_t row) const noexcept {
  return memory_.get() + origin_bytes_ + row * row_stride_ * moesaic::size_bytes(view_.dtype);
}

ByteRange HostTensor::row_range(std::int64_t begin, std::int64_t end) const noexcept {
  return {static_cast<std::size_t>(row_data(begin) - memory_.get()),
          static_cast<std::size_t>(row_data(end) - row_data(begin))};
}

float HostTensor::get(std::int64_t row, std::int64_t column) const noexcept {
  const std::byte* data = row_data(row);
  if (view_.dtype == DType::bf16) {
    BFloat16 value;
    std::memcpy(&value, data + 2 * column, sizeof(value));
    return static_cast<float>(value);
  }
  float value = 0;
  std::memcpy(&value, data + 4 * column, sizeof(value));
  return value;
}

void HostTensor::set(std::int64_t row, std::int64_t column, float value) noexcept {
  std::byte* data = row_data(row);
  if (view_.dtype == DType::bf16) {
    const BFloat16 rounded(value);
    std::memcpy(data + 2 * column, &rounded, sizeof(rounded));
  } else {
    std::memcpy(data + 4 * column, &value, sizeof(value));
  }
}

void HostTensor::poison() {
  auto* words = reinterpret_cast<std::uint16_t*>(memory_.get());
  parallel_pieces(static_cast<std::int64_t>(size_bytes_ / 2),
                  [words](std::int64_t begin, std::int64_t end) {
                    std::fill(words + begin, words + end, kPoison);
                  });
}

HostTensor HostTensor::clone() const {
  HostTensor copy;
  void* memory = std::aligned_alloc(static_cast<std::size_t>(kAlignment),
                                    std::max<std::size_t>(size_bytes_, kAlignment));
  if (memory == nullptr) throw std::bad_alloc();
  copy.memory_.reset(static_cast<std::byte*>(memory));
  copy.size_bytes_ = size_bytes_;
  copy.origin_bytes_ = origin_bytes_;
  copy.row_stride_ = row_stride_;
  copy.view_ = view_;
  copy.view_.data = copy.memory_.get() + origin_bytes_;
  copy.copy_from(*this);
  return copy;
}

void HostTensor::copy_from(const HostTensor& other) {
  std::memcpy(memory_.get(), other.memory_.get(), size_bytes_);
}

bool is_poison(const std::byte* element, DType dtype) noexcept {
  std::uint16_t halves[2] = {kPoison, kPoison};
  std::memcpy(halves, element, static_cast<std::size_t>(moesaic::size_bytes(dtype)));
  return halves[0] == kPoison && halves[1] == kPoison;
}

}  // namespace moesaic::cli
