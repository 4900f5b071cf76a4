// SPDX-License-Identifier: Apache-2.0
// See host_tensor.hpp.

#include "harness/host_tensor.hpp"

#include <cstring>
#include <limits>
#include <new>
#include <string>

#include "moesaic/error.hpp"

namespace moesaic::bench {
namespace {

constexpr std::align_val_t kAlignment{256};

template <class T>
void fill_as(T* values, std::int64_t elements, std::uint64_t seed, float scale) {
  constexpr float kStep = 1.0F / 32768.0F;
  const std::uint64_t start = mix(seed);
  for (std::int64_t i = 0; i < elements; i += 4) {  // 16 bits per value are more than BF16 tells
    std::uint64_t bits = mix(start + static_cast<std::uint64_t>(i));
    for (std::int64_t j = i; j < i + 4 && j < elements; ++j, bits >>= 16) {
      values[j] = T(scale * (static_cast<float>(bits & 0xFFFFU) * kStep - 1.0F));
    }
  }
}

}  // namespace

std::uint64_t mix(std::uint64_t value) noexcept {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

void HostTensor::Free::operator()(std::byte* bytes) const noexcept {
  ::operator delete[](bytes, kAlignment);
}

HostTensor::HostTensor(DType dtype, std::initializer_list<std::int64_t> shape) : elements_(1) {
  view_.dtype = dtype;
  view_.rank = static_cast<int>(shape.size());
  std::size_t axis = 0;
  for (const std::int64_t extent : shape) {
    view_.shape[axis++] = extent;
    elements_ *= extent;
  }
  std::int64_t stride = 1;
  while (axis > 0) {
    --axis;
    view_.stride[axis] = stride;
    stride *= view_.shape[axis];
  }
  const auto size = static_cast<std::size_t>(elements_ * size_bytes(dtype));
  bytes_.reset(static_cast<std::byte*>(::operator new[](size, kAlignment)));
  view_.data = bytes_.get();
}

void HostTensor::fill(std::uint64_t seed, float scale) {
  if (view_.dtype == DType::f32) {
    fill_as(static_cast<float*>(view_.data), elements_, seed, scale);
  } else {
    fill_as(static_cast<BFloat16*>(view_.data), elements_, seed, scale);
  }
}

void HostTensor::poison() {
  std::memset(view_.data, 0xFF, static_cast<std::size_t>(elements_ * size_bytes(view_.dtype)));
}

std::vector<std::int32_t> end_offsets(const std::vector<std::int64_t>& counts) {
  std::vector<std::int32_t> offs;
  offs.reserve(counts.size());
  std::int64_t end = 0;
  for (const std::int64_t count : counts) {
    end += count;
    if (end > std::numeric_limits<std::int32_t>::max()) {
      throw Error(ErrorCode::invalid_argument,
                  "offs: expected at most 2147483647 rows, got " + std::to_string(end));
    }
    offs.push_back(static_cast<std::int32_t>(end));
  }
  return offs;
}

}  // namespace moesaic::bench
