// SPDX-License-Identifier: Apache-2.0
// Memory and queues of any device for those who have no other library for them: the command and the
// benchmarks. Callers with an allocator of their own need none of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "moesaic/device.hpp"
#include "moesaic/stream.hpp"

namespace moesaic {

/// A queue of one device that destroys itself: on a GPU a non-blocking stream of its own, on the
/// CPU the only one there is. Moves, does not copy.
class DeviceStream {
 public:
  /// The CPU's queue.
  DeviceStream() = default;
  /// @throws Error{device_failure} when there is no such device or it refuses.
  explicit DeviceStream(Device device);
  ~DeviceStream();
  DeviceStream(DeviceStream&& other) noexcept;
  DeviceStream& operator=(DeviceStream&& other) noexcept;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// For execute and the calls below; valid as long as this object.
  [[nodiscard]] Stream get() const noexcept { return stream_; }

 private:
  Stream stream_ = Stream::cpu();
};

/// Waits until all that was enqueued on `stream` is done.
/// @throws Error{device_failure} with what the device reports, also of earlier work.
void synchronize(Stream stream);

/// A part of a buffer.
struct ByteRange {
  std::size_t offset_bytes = 0, size_bytes = 0;
};

/// How many words of a range have one value.
struct WordCount {
  std::int64_t count = 0;
  std::int64_t first = -1;  ///< Index of the first in the range, in words; -1 when there is none.
  bool operator==(const WordCount&) const = default;
};

/// Bytes of one device, 256-byte aligned, freed with this object. Moves, does not copy. The content
/// is undefined until written. Copies and fills wait for earlier work of their stream and are
/// complete when they return; the caller sees to it that no other stream uses the bytes meanwhile.
class DeviceBuffer {
 public:
  /// No bytes, no device memory.
  DeviceBuffer() = default;
  /// @throws Error{device_failure} when there is no such device, or when `size_bytes` are not free
  /// there, naming both.
  DeviceBuffer(std::size_t size_bytes, Device device);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  /// An address of the device: to be dereferenced by the host on the CPU alone.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

  /// Host bytes into the buffer, from byte `offset_bytes` on.
  /// @throws Error{invalid_argument} past the end or for a stream of another device;
  /// Error{device_failure}.
  void copy_from_host(std::span<const std::byte> source, std::size_t offset_bytes, Stream stream);
  /// Bytes of the buffer from `offset_bytes` on to the host. @throws Error like copy_from_host.
  void copy_to_host(std::span<std::byte> target, std::size_t offset_bytes, Stream stream) const;
  /// Bytes `range` of `source`, a buffer of the same device, to `offset_bytes` on; never through
  /// the host. `source` may be this buffer where the two ranges do not overlap.
  /// @throws Error like copy_from_host, also for a source of another device.
  void copy_from(const DeviceBuffer& source, ByteRange range, std::size_t offset_bytes,
                 Stream stream);
  /// Every byte becomes `value`. @throws Error like copy_from_host.
  void fill(std::byte value, Stream stream);
  /// Every word of four bytes becomes `word`. @throws Error like copy_from_host, also for a buffer
  /// whose size is not a multiple of four.
  void fill_words(std::uint32_t word, Stream stream);
  /// Counts the words of two or four bytes in `range` that equal `word`, where they lie.
  /// @throws Error like copy_from_host, also for a range that does not begin at a multiple of 16
  /// bytes or is not whole words.
  [[nodiscard]] WordCount count_words(std::uint16_t word, ByteRange range, Stream stream) const;
  [[nodiscard]] WordCount count_words(std::uint32_t word, ByteRange range, Stream stream) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  Device device_{};
};

}  // namespace moesaic
