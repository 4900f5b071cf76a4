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

TEST(DeviceBuffer, CopiesWhereItLies) {
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    DeviceBuffer source(500, device.device), target(300, device.device);
    const std::vector<std::byte> bytes = counting(500);
    source.copy_from_host(bytes, 0, stream.get());
    target.fill(std::byte{0xA5}, stream.get());
    target.copy_from(source, {120, 77}, 33, stream.get());
    source.copy_from(source, {0, 200}, 200, stream.get());
    std::vector<std::byte> there(300), back(500);
    target.copy_to_host(there, 0, stream.get());
    source.copy_to_host(back, 0, stream.get());
    for (std::size_t i = 0; i < there.size(); ++i) {
      const bool inside = i >= 33 && i < 33 + 77;
      ASSERT_EQ(there[i], inside ? bytes[i - 33 + 120] : std::byte{0xA5}) << i;
    }
    for (std::size_t i = 0; i < back.size(); ++i) {
      ASSERT_EQ(back[i], bytes[i >= 200 && i < 400 ? i - 200 : i]) << i;
    }
  }
}

/// Sizes around a load of 16 bytes, and one of more loads than a grid has threads.
TEST(DeviceBuffer, FillsAndCountsWords) {
  static constexpr std::uint32_t kWord = 0xFFC3FFC3;
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    for (const std::size_t size : {4UL, 12UL, 16UL, 20UL, 4096UL + 8, (1UL << 24) + 4}) {
      DeviceBuffer buffer(size, device.device);
      buffer.fill_words(kWord, stream.get());
      const auto words = static_cast<std::int64_t>(size / 4);
      EXPECT_EQ(buffer.count_words(kWord, {0, size}, stream.get()), (WordCount{words, 0}));
      EXPECT_EQ(buffer.count_words(std::uint16_t{0xFFC3}, {0, size}, stream.get()),
                (WordCount{2 * words, 0}));
      // One half of the last word, and every word before it, become others.
      std::vector<std::uint16_t> halves(size / 2, 0x1234);
      halves.back() = 0xFFC3;
      buffer.copy_from_host(std::as_bytes(std::span(halves)), 0, stream.get());
      EXPECT_EQ(buffer.count_words(kWord, {0, size}, stream.get()), WordCount{});
      EXPECT_EQ(buffer.count_words(std::uint16_t{0xFFC3}, {0, size}, stream.get()),
                (WordCount{1, 2 * words - 1}));
      EXPECT_EQ(buffer.count_words(std::uint16_t{0xFFC3}, {0, size - 2}, stream.get()),
                WordCount{});
    }
  }
}

TEST(DeviceBuffer, CountsInAPartOfItself) {
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    std::vector<std::uint32_t> words(1000, 7);
    for (const std::size_t i : {3, 96, 97, 700, 999}) words[i] = 0xABCD0007;
    DeviceBuffer buffer(4000, device.device);
    buffer.copy_from_host(std::as_bytes(std::span(words)), 0, stream.get());
    EXPECT_EQ(buffer.count_words(0xABCD0007U, {0, 4000}, stream.get()), (WordCount{5, 3}));
    EXPECT_EQ(buffer.count_words(0xABCD0007U, {16, 4 * 697}, stream.get()), (WordCount{3, 92}));
    EXPECT_EQ(buffer.count_words(std::uint16_t{0xABCD}, {16, 2000}, stream.get()),
              (WordCount{2, 2 * 92 + 1}));  // the upper half of a word lies behind the lower
    EXPECT_EQ(buffer.count_words(std::uint16_t{0}, {16, 0}, stream.get()), WordCount{});
  }
}

TEST(DeviceBuffer, RefusesWordsAndCopiesThatDoNotFit) {
  const Stream stream = Stream::cpu();
  DeviceBuffer buffer(64, Device{}), odd(18, Device{});
  expect_error(ErrorCode::invalid_argument, {"size_bytes", "multiple of 4", "18"},
               [&] { odd.fill_words(1, stream); });
  expect_error(ErrorCode::invalid_argument, {"range", "words of 4 bytes", "6 bytes from byte 16"},
               [&] {
                 static_cast<void>(buffer.count_words(1U, {16, 6}, stream));
               });
  expect_error(ErrorCode::invalid_argument, {"range", "multiple of 16", "8 bytes from byte 4"},
               [&] {
                 static_cast<void>(buffer.count_words(1U, {4, 8}, stream));
               });
  expect_error(ErrorCode::invalid_argument, {"offset_bytes", "64 bytes", "from byte 16"}, [&] {
    static_cast<void>(buffer.count_words(1U, {16, 64}, stream));
  });
  expect_error(ErrorCode::invalid_argument, {"offset_bytes", "18 bytes"}, [&] {
    odd.copy_from(buffer, {0, 20}, 0, stream);
  });
  expect_error(ErrorCode::invalid_argument, {"range", "overlap", "10 bytes from byte 4 to byte 12"},
               [&] {
                 buffer.copy_from(buffer, {4, 10}, 12, stream);
               });
  const Stream other = Stream::from_native({DeviceKind::cuda, 0}, nullptr);
  expect_error(ErrorCode::invalid_argument, {"stream"}, [&] { buffer.fill_words(1, other); });
}

TEST(DeviceBuffer, EmptyOnesTakeNoMemory) {
  const DeviceBuffer none;
  EXPECT_EQ(none.data(), nullptr);
  DeviceBuffer empty(0, Device{});
  EXPECT_EQ(empty.data(), nullptr);
  empty.fill(std::byte{1}, Stream::cpu());
  empty.copy_from_host({}, 0, Stream::cpu());
  empty.copy_from(none, {}, 0, Stream::cpu());
  empty.fill_words(1, Stream::cpu());
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
