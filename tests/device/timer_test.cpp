// SPDX-License-Identifier: Apache-2.0
// Times of work on a device's stream.

#include <gtest/gtest.h>

#include <algorithm>

#include "device/case.hpp"
#include "moesaic/device_timer.hpp"

namespace moesaic::device_tests {
namespace {

class Timer : public OnDevice {};

// A stream's queue holds tens of thousands of launches: behind a gate that waits for all of them,
// the host would wait for room until the gate's time-out.
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
  const DeviceTimer timer(stream);
  const auto call = [&] { plan.execute(args, workspace, stream); };
  const UnitTimes times = timer.time_units(call, kCalls, kUnits);
  ASSERT_EQ(std::ssize(times.seconds), kUnits);
  const auto [least, most] = std::minmax_element(times.seconds.begin(), times.seconds.end());
  EXPECT_GT(*least, kCalls * 1e-6);
  EXPECT_LT(*most, 2 * *least) << "a gap would make a unit longer";
  on.compare(queue.get());
  EXPECT_EQ(on.differences(queue.get()), "");
}

}  // namespace
}  // namespace moesaic::device_tests
