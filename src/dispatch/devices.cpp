// SPDX-License-Identifier: Apache-2.0
// The devices of this machine, and the records that executes left on them.

#include <string>

#include "core/message.hpp"
#include "dispatch/backend_list.hpp"
#include "moesaic/build_info.hpp"
#include "moesaic/device.hpp"
#if MOESAIC_HAVE_CUDA
#include "backends/cuda/cuda_backend.hpp"
#endif

namespace moesaic {
namespace {

DeviceInfo query_cpu() {
  const CpuInfo cpu = cpu_info();
  DeviceInfo info;
  info.name = cpu.model;
  info.num_sms = cpu.threads;
  return info;
}

std::vector<DeviceInfo> query_cuda(std::string& why_none) {
#if MOESAIC_HAVE_CUDA
  return backends::cuda::devices(why_none);
#else
  why_none = "no CUDA device: this build has no CUDA backend";
  return {};
#endif
}

const backends::Backend* backend_of_kind(DeviceKind kind) {
  for (const backends::Backend* backend : dispatch::all_backends()) {
    if (backend->device_kind() == kind) {
      return backend;
    }
  }
  return nullptr;
}

const backends::Backend& backend_of(const Workspace& workspace, const Stream& stream) {
  core::check_workspace(workspace, core::kWorkspaceHeaderBytes, stream.device());
  const backends::Backend* backend = backend_of_kind(workspace.device.kind);
  if (backend == nullptr) {
    throw Error(ErrorCode::unsupported, "no backend serves " + to_string(workspace.device));
  }
  return *backend;
}

}  // namespace

const backends::Backend& dispatch::device_backend(Device device) {
  const backends::Backend* backend = backend_of_kind(device.kind);
  if (backend == nullptr) {
    throw Error(ErrorCode::device_failure,
                to_string(device) + ": no backend of this build serves this kind of device");
  }
  return *backend;
}

DeviceList list_devices() {
  DeviceList list;
  list.devices.push_back(query_cpu());
  for (DeviceInfo& device : query_cuda(list.why_no_cuda)) {
    list.devices.push_back(std::move(device));
  }
  return list;
}

DeviceInfo query_device(Device device) {
  if (device.kind == DeviceKind::cpu) {
    if (device.index != 0) {
      core::refuse("device", "cpu with index 0, the only one",
                   "index " + std::to_string(device.index), ErrorCode::device_failure);
    }
    return query_cpu();
  }
  std::string why_none;
  const std::vector<DeviceInfo> devices = query_cuda(why_none);
  if (device.index < 0 || static_cast<std::size_t>(device.index) >= devices.size()) {
    throw Error(ErrorCode::device_failure, devices.empty() ? to_string(device) + ": " + why_none
                                                           : to_string(device) + ": only " +
                                                                 std::to_string(devices.size()) +
                                                                 " CUDA device(s) here");
  }
  return devices[static_cast<std::size_t>(device.index)];
}

DeviceFault read_fault(Workspace workspace, Stream stream) {
  const backends::Backend& backend = backend_of(workspace, stream);
  const DeviceFault fault = core::decode_fault(backend.read_header(workspace, stream).fault_word);
  if (fault) {
    backend.clear_fault(workspace, stream);
  }
  return fault;
}

std::int64_t read_overflow_rows(Workspace workspace, Stream stream) {
  return backend_of(workspace, stream).read_header(workspace, stream).overflow_rows;
}

}  // namespace moesaic
