// SPDX-License-Identifier: Apache-2.0
// Pieces in order, each once, each with a time; what a piece throws comes out.
#include "moesaic/device_timer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "moesaic/device.hpp"
#include "moesaic/device_memory.hpp"
#include "moesaic/error.hpp"

namespace moesaic::testing {
namespace {

using Pieces = std::vector<std::function<void()>>;

TEST(DeviceTimer, RunsEveryPieceOnceInOrder) {
  // Over several gates.
  static constexpr std::size_t kCount = 2 * DeviceTimer::kPiecesPerGate + 5;
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    std::vector<std::size_t> order;
    Pieces pieces;
    for (std::size_t i = 0; i < kCount; ++i) {
      pieces.emplace_back([&order, i] { order.push_back(i); });
    }
    for (const TimerGate gate : {TimerGate::closed, TimerGate::open}) {
      order.clear();
      const std::vector<double> seconds = DeviceTimer(stream.get()).time(pieces, gate);
      ASSERT_EQ(seconds.size(), kCount);
      ASSERT_EQ(order.size(), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(order[i], i);
        EXPECT_GT(seconds[i], 0);
      }
    }
  }
}

TEST(DeviceTimer, NoPiecesNoTimes) { EXPECT_TRUE(DeviceTimer(Stream::cpu()).time({}).empty()); }

TEST(DeviceTimer, TimesWorkOfTheCpu) {
  using std::chrono::milliseconds;
  const Pieces pieces = {[] {}, [] { std::this_thread::sleep_for(milliseconds(20)); }, [] {}};
  const std::vector<double> seconds = DeviceTimer(Stream::cpu()).time(pieces);
  EXPECT_GE(seconds[1], 0.020);
  EXPECT_LT(seconds[0], seconds[1]);
}

TEST(DeviceTimer, AClosedGateKeepsTheHostOutOfTheTimes) {
  for (const DeviceInfo& device : list_devices().devices) {
    if (device.device.kind == DeviceKind::cpu) continue;
    const DeviceStream stream(device.device);
    const Pieces pieces = {[] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }};
    EXPECT_LT(DeviceTimer(stream.get()).time(pieces)[0], 0.010);
    EXPECT_GE(DeviceTimer(stream.get()).time(pieces, TimerGate::open)[0], 0.040);
  }
}

TEST(DeviceTimer, PassesOnWhatAPieceThrows) {
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    int after = 0;
    const Pieces pieces = {[] { throw std::runtime_error("piece"); }, [&after] { ++after; }};
    EXPECT_THROW((void)DeviceTimer(stream.get()).time(pieces), std::runtime_error);
    EXPECT_EQ(after, 0);
    synchronize(stream.get());  // the gate does not hold the stream
  }
}

TEST(DeviceTimer, UnitsOnTheCpuCallEveryPiece) {
  int calls = 0;
  const std::function<void()> piece = [&calls] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++calls;
  };
  const UnitTimes times = DeviceTimer(Stream::cpu()).time_units(piece, 3, 4);
  EXPECT_EQ(calls, 12);
  ASSERT_EQ(times.seconds.size(), 4U);
  for (const double seconds : times.seconds) EXPECT_GE(seconds, 0.003);
}

TEST(DeviceTimer, UnitsAreCapturedOnceOnAGpu) {
  for (const DeviceInfo& device : list_devices().devices) {
    if (device.device.kind == DeviceKind::cpu) continue;
    const DeviceStream stream(device.device);
    int calls = 0;
    const UnitTimes times = DeviceTimer(stream.get()).time_units([&calls] { ++calls; }, 3, 200);
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(times.seconds.size(), 200U);
    synchronize(stream.get());
  }
}

TEST(DeviceTimer, RefusesUnitsOfNothingAndPassesOnWhatAPieceThrows) {
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceStream stream(device.device);
    const DeviceTimer timer(stream.get());
    EXPECT_THROW((void)timer.time_units([] {}, 0, 1), Error);
    EXPECT_THROW((void)timer.time_units([] {}, 1, 0), Error);
    EXPECT_THROW((void)timer.time_units([] { throw std::runtime_error("piece"); }, 1, 1),
                 std::runtime_error);
    synchronize(stream.get());  // neither gate nor capture holds the stream
  }
}

}  // namespace
}  // namespace moesaic::testing
