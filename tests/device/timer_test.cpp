// SPDX-License-Identifier: Apache-2.0
// Times of work on a device's stream.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "device/case.hpp"
#include "moesaic/batched_gemm.hpp"
#include "moesaic/device_timer.hpp"

namespace moesaic::device_tests {
namespace {

class Timer : public OnDevice {};

/// Units of `calls` calls that took about as long, none of them late.
void expect_no_gap(const UnitTimes& times, std::int64_t units, std::int64_t calls) {
  ASSERT_EQ(std::ssize(times.seconds), units);
  EXPECT_EQ(times.late, 0);
  // A launch is a part of the first.
  const auto [least, most] = std::minmax_element(times.seconds.begin() + 1, times.seconds.end());
  EXPECT_GT(*least, static_cast<double>(calls) * 1e-6);
  EXPECT_LT(*most, 2 * *least) << "a gap makes a unit longer";
}

// The host waits for room behind the gate, which opens then, and stays ahead of the device.
TEST_F(Timer, PiecesOfMoreLaunchesThanAQueueHoldsAreTimed) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  constexpr int kLaunches = 1000;
  const DeviceMemory memory(kBytes);
  const Queue queue;
  std::vector<std::chrono::steady_clock::time_point> begins;
  const auto piece = [&] {
    begins.push_back(std::chrono::steady_clock::now());
    for (int launch = 0; launch < kLaunches; ++launch) {
      check(cudaMemsetAsync(memory.bytes(), launch % 2, kBytes, queue.get()), "cudaMemsetAsync");
    }
  };
  const std::vector<std::function<void()>> pieces(DeviceTimer::kPiecesPerGate, piece);
  const std::vector<double> seconds =
      DeviceTimer(Stream::from_native(kDevice, queue.get())).time(pieces);
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  EXPECT_GT(begins.back() - begins.front(), std::chrono::seconds(1)) << "the queue held all";
  EXPECT_GT(*least, kLaunches * static_cast<double>(kBytes) / 5e12);
  EXPECT_LT(*most, 2 * *least) << "a gap makes a piece longer";
}

TEST_F(Timer, APieceThatWaitsForTheDeviceIsRefusedBehindAGate) {
  const Queue queue;
  const DeviceTimer timer(Stream::from_native(kDevice, queue.get()));
  const std::vector<std::function<void()>> pieces(1, [&] { queue.wait(); });
  EXPECT_GT(timer.time(pieces, TimerGate::open)[0], 0);
  try {
    (void)timer.time(pieces);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failure);
    EXPECT_NE(std::string(error.what()).find("got 1 of 1 pieces later"), std::string::npos)
        << error.what();
  }
}

// A stream's queue holds tens of thousands of launches: units of them have no gate to wait behind.
TEST_F(Timer, UnitsOfMoreLaunchesThanAQueueHoldsRunWithoutAGap) {
  constexpr std::int64_t kCalls = 2000, kUnits = 60;
  Case c;
  c.offs = {100, 100, 250, 300};
  c.rows = 300;
  c.n = 256;
  c.k = 512;
  CaseOnDevice on(c);
  const GroupedGemm plan = on.plan();
  const GroupedGemmArgs args = on.args();
  const Workspace workspace = on.workspace(plan.workspace_bytes());
  const Queue queue;
  const Stream stream = Stream::from_native(kDevice, queue.get());
  const auto call = [&] { plan.execute(args, workspace, stream); };
  on.poison(queue.get());
  expect_no_gap(DeviceTimer(stream).time_units(call, kCalls, kUnits), kUnits, kCalls);
  on.compare(queue.get());
  EXPECT_EQ(on.differences(queue.get()), "");
}

// Graphs of cuBLAS's products wait for room sooner than others.
TEST_F(Timer, UnitsOfALibraryRunWithoutAGap) {
  constexpr std::int64_t kWidth = 2048, kBytes = 2 * kWidth * kWidth, kCalls = 100, kUnits = 40;
  const BatchedGemm gemm =
      BatchedGemm::plan({.batch = 1, .m = kWidth, .n = kWidth, .k = kWidth}, device_here().info);
  const DeviceMemory a(kBytes), w(kBytes), d(kBytes);
  const auto view = [](const DeviceMemory& memory) {
    return TensorView{
        memory.bytes(), DType::bf16, kDevice, 3, {1, kWidth, kWidth}, {kWidth * kWidth, kWidth, 1}};
  };
  const DeviceMemory bytes(static_cast<std::int64_t>(gemm.workspace_bytes()));
  const Workspace workspace{{bytes.bytes(), gemm.workspace_bytes()}, kDevice};
  const Queue queue;
  const Stream stream = Stream::from_native(kDevice, queue.get());
  const auto call = [&] { gemm.execute({view(a), view(w), view(d)}, workspace, stream); };
  call();  // kernels are loaded when they are first met, not in a capture
  expect_no_gap(DeviceTimer(stream).time_units(call, kCalls, kUnits), kUnits, kCalls);
}

}  // namespace
}  // namespace moesaic::device_tests
