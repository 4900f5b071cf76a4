// SPDX-License-Identifier: Apache-2.0
// Devices, records of executes, and what the build says of itself.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "moesaic/build_info.hpp"
#include "moesaic/device.hpp"
#include "moesaic/workspace.hpp"
#include "support/expect_error.hpp"
#include "support/implementations.hpp"

namespace moesaic::testing {
namespace {

TEST(ListDevices, TheCpuComesFirst) {
  const DeviceList list = list_devices();
  ASSERT_FALSE(list.devices.empty());
  EXPECT_EQ(list.devices[0].device, Device{});
  EXPECT_FALSE(list.devices[0].name.empty());
  EXPECT_GE(list.devices[0].num_sms, 1);
  EXPECT_EQ(list.devices[0].compute_capability, 0);
  EXPECT_EQ(list.devices.size() == 1, !list.why_no_cuda.empty()) << list.why_no_cuda;
  for (std::size_t i = 1; i < list.devices.size(); ++i) {
    EXPECT_EQ(list.devices[i].device, (Device{DeviceKind::cuda, static_cast<int>(i) - 1}));
  }
}

TEST(QueryDevice, AnswersAsTheListDoes) {
  for (const DeviceInfo& device : list_devices().devices) {
    const DeviceInfo asked = query_device(device.device);
    EXPECT_EQ(asked.device, device.device);
    EXPECT_EQ(asked.name, device.name);
    EXPECT_EQ(asked.num_sms, device.num_sms);
  }
}

TEST(QueryDevice, NoSuchDevice) {
  for (const Device device : {Device{DeviceKind::cpu, 1}, Device{DeviceKind::cpu, -1},
                              Device{DeviceKind::cuda, -1}, Device{DeviceKind::cuda, 1000}}) {
    expect_error(ErrorCode::device_failure, {}, [&] { query_device(device); });
  }
  expect_error(ErrorCode::device_failure, {"cuda:1000"}, [] {
    query_device(Device{DeviceKind::cuda, 1000});
  });
}

TEST(ReadFault, OnAFreshWorkspaceThereIsNone) {
  const HostWorkspace workspace(1024);
  const DeviceFault fault = read_fault(workspace.get(), Stream::cpu());
  EXPECT_FALSE(fault);
  EXPECT_EQ(fault.expert, -1);
  EXPECT_EQ(fault.value, 0);
  EXPECT_EQ(read_overflow_rows(workspace.get(), Stream::cpu()), 0);
}

TEST(ReadFault, OnAWorkspaceThatNoExecuteCanHaveUsed) {
  const HostWorkspace workspace(512);
  const std::span<std::byte> all = workspace.get().bytes;
  for (const Workspace bad : {Workspace{}, Workspace{all.subspan(0, 8), Device{}},
                              Workspace{all.subspan(8, 256), Device{}}}) {
    expect_error(ErrorCode::workspace_too_small, {"workspace"},
                 [&] { read_fault(bad, Stream::cpu()); });
    expect_error(ErrorCode::workspace_too_small, {"workspace"},
                 [&] { read_overflow_rows(bad, Stream::cpu()); });
  }
  const Stream foreign = Stream::from_native(Device{DeviceKind::cuda, 0}, nullptr);
  EXPECT_THROW(read_fault(workspace.get(), foreign), Error);
}

TEST(BuildInfo, SaysWhatItIs) {
  const BuildInfo info = build_info();
  EXPECT_FALSE(info.version.empty());
  EXPECT_FALSE(info.git_sha.empty());
  EXPECT_FALSE(info.compiler.empty());
  EXPECT_EQ(info.has_onednn, !info.onednn_version.empty());
}

TEST(BackendStatus, OneRowEachWithItsReason) {
  const std::vector<BackendStatus> all = backend_status();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].name, "cuda");
  EXPECT_EQ(all[1].name, "nvshmem");
  EXPECT_EQ(all[2].name, "onednn");
  EXPECT_EQ(all[3].name, "reference");
  EXPECT_TRUE(all[3].ok);
  for (const BackendStatus& backend : all) {
    EXPECT_FALSE(backend.detail.empty()) << backend.name;
  }
  if (!build_info().has_onednn) {
    EXPECT_FALSE(all[2].ok);
  }
  const bool no_exchange = all[1].detail.find("no expert parallelism") != std::string::npos;
  EXPECT_EQ(build_info().has_nvshmem, !no_exchange) << all[1].detail;
}

TEST(CpuInfo, HasThreads) {
  const CpuInfo info = cpu_info();
  EXPECT_GE(info.threads, 1);
  EXPECT_FALSE(info.model.empty());
}

}  // namespace
}  // namespace moesaic::testing
