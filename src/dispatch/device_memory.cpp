// SPDX-License-Identifier: Apache-2.0
// Public memory and queues of devices: checks, then the backend that serves the device.

#include "moesaic/device_memory.hpp"

#include <string>
#include <utility>

#include "core/message.hpp"
#include "dispatch/backend_list.hpp"

namespace moesaic {
namespace {

void check_stream(const DeviceBuffer& buffer, const Stream& stream) {
  if (stream.device() != buffer.device()) {
    core::refuse("stream", "one of " + to_string(buffer.device()), to_string(stream.device()));
  }
}

void check_range(const DeviceBuffer& buffer, std::size_t offset_bytes, std::size_t size_bytes,
                 const Stream& stream) {
  if (offset_bytes > buffer.size_bytes() || size_bytes > buffer.size_bytes() - offset_bytes) {
    core::refuse("offset_bytes",
                 "a range within the buffer's " + std::to_string(buffer.size_bytes()) + " bytes",
                 std::to_string(size_bytes) + " bytes from byte " + std::to_string(offset_bytes));
  }
  check_stream(buffer, stream);
}

/// Loads of kernels, the widest there are.
constexpr std::size_t kLoadBytes = 16;

WordCount count(const DeviceBuffer& buffer, const backends::Word& word, ByteRange range,
                const Stream& stream) {
  check_range(buffer, range.offset_bytes, range.size_bytes, stream);
  if (range.offset_bytes % kLoadBytes != 0 || range.size_bytes % word.size_bytes != 0) {
    core::refuse("range",
                 "whole words of " + std::to_string(word.size_bytes) +
                     " bytes from a multiple of " + std::to_string(kLoadBytes) + " bytes on",
                 std::to_string(range.size_bytes) + " bytes from byte " +
                     std::to_string(range.offset_bytes));
  }
  if (range.size_bytes == 0) return {};
  return dispatch::device_backend(buffer.device())
      .count_words(buffer.data() + range.offset_bytes, range.size_bytes, word, stream);
}

}  // namespace

DeviceStream::DeviceStream(Device device) {
  query_device(device);  // refuses one that is not there
  stream_ = Stream::from_native(device, dispatch::device_backend(device).make_stream(device));
}

DeviceStream::~DeviceStream() {
  if (stream_.native() != nullptr) {
    dispatch::device_backend(stream_.device()).destroy_stream(stream_.native(), stream_.device());
  }
}

DeviceStream::DeviceStream(DeviceStream&& other) noexcept
    : stream_(std::exchange(other.stream_, Stream::cpu())) {}

DeviceStream& DeviceStream::operator=(DeviceStream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

void synchronize(Stream stream) { dispatch::device_backend(stream.device()).synchronize(stream); }

DeviceBuffer::DeviceBuffer(std::size_t size_bytes, Device device)
    : size_bytes_(size_bytes), device_(device) {
  query_device(device);  // refuses one that is not there
  if (size_bytes > 0) {
    data_ = static_cast<std::byte*>(dispatch::device_backend(device).allocate(size_bytes, device));
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) {
    dispatch::device_backend(device_).release(data_, device_);
  }
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      device_(std::exchange(other.device_, Device{})) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(device_, other.device_);
  return *this;
}

void DeviceBuffer::copy_from_host(std::span<const std::byte> source, std::size_t offset_bytes,
                                  Stream stream) {
  check_range(*this, offset_bytes, source.size(), stream);
  if (source.empty()) return;
  dispatch::device_backend(device_).copy_from_host(data_ + offset_bytes, source.data(),
                                                   source.size(), stream);
}

void DeviceBuffer::copy_to_host(std::span<std::byte> target, std::size_t offset_bytes,
                                Stream stream) const {
  check_range(*this, offset_bytes, target.size(), stream);
  if (target.empty()) return;
  dispatch::device_backend(device_).copy_to_host(target.data(), data_ + offset_bytes, target.size(),
                                                 stream);
}

void DeviceBuffer::copy_from(const DeviceBuffer& source, ByteRange range, std::size_t offset_bytes,
                             Stream stream) {
  check_range(source, range.offset_bytes, range.size_bytes, stream);
  check_range(*this, offset_bytes, range.size_bytes, stream);
  if (range.size_bytes == 0) return;
  const bool apart = offset_bytes + range.size_bytes <= range.offset_bytes ||
                     range.offset_bytes + range.size_bytes <= offset_bytes;
  if (&source == this && !apart) {
    core::refuse("range", "one that does not overlap what it is copied to",
                 std::to_string(range.size_bytes) + " bytes from byte " +
                     std::to_string(range.offset_bytes) + " to byte " +
                     std::to_string(offset_bytes));
  }
  dispatch::device_backend(device_).copy_within(
      data_ + offset_bytes, source.data_ + range.offset_bytes, range.size_bytes, stream);
}

void DeviceBuffer::fill_words(std::uint32_t word, Stream stream) {
  check_stream(*this, stream);
  if (size_bytes_ % sizeof(word) != 0) {
    core::refuse("size_bytes", "a multiple of 4", std::to_string(size_bytes_));
  }
  if (size_bytes_ == 0) return;
  dispatch::device_backend(device_).fill_words(data_, word, size_bytes_, stream);
}

WordCount DeviceBuffer::count_words(std::uint16_t word, ByteRange range, Stream stream) const {
  return count(*this, {word, sizeof(word)}, range, stream);
}

WordCount DeviceBuffer::count_words(std::uint32_t word, ByteRange range, Stream stream) const {
  return count(*this, {word, sizeof(word)}, range, stream);
}

void DeviceBuffer::fill(std::byte value, Stream stream) {
  check_stream(*this, stream);
  if (size_bytes_ == 0) return;
  dispatch::device_backend(device_).fill(data_, value, size_bytes_, stream);
}

}  // namespace moesaic
