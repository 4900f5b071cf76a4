// SPDX-License-Identifier: Apache-2.0
// Device memory and streams for callers without an allocator of their own.
#pragma once

#include <cstddef>

#include "moesaic/stream.hpp"

namespace moesaic::backends::cuda::launch {

/// @throws Error{device_failure} naming size and device.
void* allocate(std::size_t size_bytes, Device device);
void release(void* data, Device device) noexcept;

/// Complete on return: pageable host memory has no other way.
void copy_from_host(void* target, const void* source, std::size_t size_bytes, const Stream& stream);
void copy_to_host(void* target, const void* source, std::size_t size_bytes, const Stream& stream);
void copy_within(void* target, const void* source, std::size_t size_bytes, const Stream& stream);
void fill(void* target, std::byte value, std::size_t size_bytes, const Stream& stream);

/// Non-blocking: it neither waits for the legacy default stream nor is waited for by it.
void* make_stream(Device device);
void destroy_stream(void* native, Device device) noexcept;
void synchronize(const Stream& stream);

}  // namespace moesaic::backends::cuda::launch
