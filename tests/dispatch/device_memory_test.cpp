// SPDX-License-Identifier: Apache-2.0
// Memory and queues of a device: on the CPU always, on CUDA devices where there are any.
#include "moesaic/device_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "support/expect_error.hpp"

namespace moesaic::testing {
namespace {

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST(DeviceBuffer, BringsBackWhatWasPutThere) {
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    DeviceBuffer buffer(1000, device.device);
    EXPECT_EQ(buffer.size_bytes(), 1000U);
    EXPECT_EQ(buffer.device(), device.device);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
    buffer.fill(std::byte{0xA5}, stream.get());
    const std::vector<std::byte> middle = counting(300);
    buffer.copy_from_host(middle, 100, stream.get());
    std::vector<std::byte> all(1000);
    buffer.copy_to_host(all, 0, stream.get());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool inside = i >= 100 && i < 400;
      ASSERT_EQ(all[i], inside ? middle[i - 100] : std::byte{0xA5}) << i;
    }
    std::vector<std::byte> part(5);
    buffer.copy_to_host(part, 395, stream.get());
    EXPECT_EQ(part, std::vector<std::byte>(middle.end() - 5, middle.end()));
    synchronize(stream.get());
  }
}

TEST(DeviceBuffer, EmptyOnesTakeNoMemory) {
  const DeviceBuffer none;
  EXPECT_EQ(none.data(), nullptr);
  DeviceBuffer empty(0, Device{});
  EXPECT_EQ(empty.data(), nullptr);
  empty.fill(std::byte{1}, Stream::cpu());
  empty.copy_from_host({}, 0, Stream::cpu());
}

TEST(DeviceBuffer, MovesItsMemory) {
  DeviceBuffer first(64, Device{});
  std::byte* const memory = first.data();
  DeviceBuffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.size_bytes(), 64U);
  DeviceBuffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), memory);
}

TEST(DeviceBuffer, RefusesRangesPastItsEnd) {
  DeviceBuffer buffer(16, Device{});
  std::array<std::byte, 17> bytes{};
  const auto range = [](const char* size) { return std::string(size) + " bytes from byte"; };
  expect_error(ErrorCode::invalid_argument, {"offset_bytes", range("17")},
               [&] { buffer.copy_from_host(bytes, 0, Stream::cpu()); });
  expect_error(ErrorCode::invalid_argument, {"offset_bytes", "16 bytes", "from byte 1"},
               [&] { buffer.copy_to_host(std::span(bytes).first(16), 1, Stream::cpu()); });
  expect_error(ErrorCode::invalid_argument, {"offset_bytes"}, [&] {
    buffer.copy_to_host(std::span(bytes).first(1), std::numeric_limits<std::size_t>::max(),
                        Stream::cpu());
  });
}

TEST(DeviceBuffer, RefusesAStreamOfAnotherDevice) {
  DeviceBuffer buffer(16, Device{});
  const Stream other = Stream::from_native({DeviceKind::cuda, 0}, nullptr);
  expect_error(ErrorCode::invalid_argument, {"stream", "cpu", "cuda:0"},
               [&] { buffer.fill(std::byte{0}, other); });
}

TEST(DeviceBuffer, RefusesMoreThanThereIs) {
  for (const DeviceInfo& device : list_devices().devices) {
    expect_error(ErrorCode::device_failure, {"size_bytes", to_string(device.device)}, [&] {
      const DeviceBuffer buffer(std::numeric_limits<std::size_t>::max() / 2, device.device);
    });
  }
}

TEST(DeviceBuffer, RefusesDevicesThatAreNotThere) {
  const auto cuda_devices = static_cast<int>(list_devices().devices.size()) - 1;
  const Device absent{DeviceKind::cuda, cuda_devices};
  expect_error(ErrorCode::device_failure, {to_string(absent)},
               [&] { const DeviceBuffer buffer(1, absent); });
  expect_error(ErrorCode::device_failure, {to_string(absent)},
               [&] { const DeviceStream stream(absent); });
  expect_error(ErrorCode::device_failure, {"device", "index 1"}, [] {
    const DeviceBuffer buffer(1, Device{DeviceKind::cpu, 1});
  });
}

TEST(DeviceStream, IsOneOfItsDevice) {
  EXPECT_EQ(DeviceStream().get().device(), Device{});
  for (const DeviceInfo& device : list_devices().devices) {
    DeviceStream stream(device.device);
    EXPECT_EQ(stream.get().device(), device.device);
    EXPECT_EQ(stream.get().native() != nullptr, device.device.kind == DeviceKind::cuda);
    void* const native = stream.get().native();
    const DeviceStream moved(std::move(stream));
    EXPECT_EQ(moved.get().native(), native);
    synchronize(moved.get());
  }
}

}  // namespace
}  // namespace moesaic::testing
