// SPDX-License-Identifier: Apache-2.0
// Version, devices, and the records that executes left in a workspace.

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "c_api/convert.hpp"
#include "c_api/status.hpp"
#include "moesaic/build_info.hpp"

namespace moesaic::c_api {
namespace {

std::string version_text() {
  const BuildInfo info = build_info();
  std::string text = info.version + " (" + info.git_sha;
  text += info.git_dirty ? "+changes" : "";
  text += info.has_onednn ? ", oneDNN " + info.onednn_version : "";
  text += info.has_cuda ? ", CUDA" : "";
  text += info.has_nvshmem ? ", NVSHMEM" : "";
  return text + ")";
}

moesaic_fault to_c(const DeviceFault& fault) {
  return {static_cast<std::int32_t>(fault.kind), fault.expert, fault.value};
}

}  // namespace

const DeviceInfo& device_info(Device device) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, DeviceInfo> known;  // nodes stay where they are
  const std::lock_guard lock(mutex);
  const std::pair key{static_cast<int>(device.kind), device.index};
  const auto found = known.find(key);
  return found != known.end() ? found->second
                              : known.emplace(key, query_device(device)).first->second;
}

}  // namespace moesaic::c_api

using namespace moesaic::c_api;

extern "C" {

int32_t moesaic_abi_version(void) { return MOESAIC_ABI_VERSION; }

const char* moesaic_version(void) {
  static const std::string text = version_text();
  return text.c_str();
}

int moesaic_query_device(moesaic_device device, moesaic_device_info* info) {
  return guarded([&] {
    moesaic_device_info& result = required("info", info);
    const moesaic::DeviceInfo& found = device_info(to_device(device));
    result = {device,
              found.compute_capability,
              found.num_sms,
              found.smem_bytes_per_block,
              found.l2_bytes,
              found.dram_bytes_per_second,
              found.bf16_flops_per_second,
              {}};
    const std::size_t length = std::min(found.name.size(), sizeof(result.name) - 1);
    std::memcpy(result.name, found.name.data(), length);
  });
}

int moesaic_cuda_device_count(int32_t* count) {
  return guarded([&] {
    const std::size_t all = moesaic::list_devices().devices.size();
    required("count", count) = static_cast<int32_t>(all - 1);  // the CPU is always there
  });
}

int moesaic_read_fault(const moesaic_workspace* workspace, moesaic_device device, void* stream,
                       moesaic_fault* fault) {
  return guarded([&] {
    const moesaic::Device where = to_device(device);
    required("fault", fault) =
        to_c(moesaic::read_fault(to_workspace(required("workspace", workspace), where),
                                 moesaic::Stream::from_native(where, stream)));
  });
}

int moesaic_read_overflow_rows(const moesaic_workspace* workspace, moesaic_device device,
                               void* stream, int64_t* rows) {
  return guarded([&] {
    const moesaic::Device where = to_device(device);
    required("rows", rows) =
        moesaic::read_overflow_rows(to_workspace(required("workspace", workspace), where),
                                    moesaic::Stream::from_native(where, stream));
  });
}

}  // extern "C"
