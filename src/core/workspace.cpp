// SPDX-License-Identifier: Apache-2.0
// Host workspaces and the checks every workspace passes.

#include "moesaic/workspace.hpp"

#include <algorithm>
#include <string>

#include "core/message.hpp"
#include "core/workspace_header.hpp"
#include "math/fault_word.hpp"

namespace moesaic {
namespace {

std::size_t misalignment(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kWorkspaceAlignment;
}

}  // namespace

HostWorkspace::HostWorkspace(std::size_t size_bytes)
    : size_bytes_(size_bytes), storage_(size_bytes + kWorkspaceAlignment) {}

Workspace HostWorkspace::get() const noexcept {
  const std::size_t skip =
      (kWorkspaceAlignment - misalignment(storage_.data())) % kWorkspaceAlignment;
  return {std::span<std::byte>(storage_).subspan(skip, size_bytes_), Device{}};
}

DeviceFault core::decode_fault(std::uint64_t fault_word) {
  const math::Fault fault = math::decode_fault(fault_word);
  DeviceFault result;
  result.kind = static_cast<DeviceFault::Kind>(fault.kind);
  result.expert = static_cast<int>(fault.expert);
  result.value = fault.value;
  return result;
}

void core::check_workspace(const Workspace& workspace, std::size_t needed_bytes, Device device,
                           std::string_view argument) {
  if (workspace.bytes.size() < needed_bytes) {
    refuse(argument, "at least " + std::to_string(needed_bytes) + " bytes",
           std::to_string(workspace.bytes.size()), ErrorCode::workspace_too_small);
  }
  if (misalignment(workspace.bytes.data()) != 0) {
    refuse(argument, "a 256-byte aligned address",
           "one that is off by " + std::to_string(misalignment(workspace.bytes.data())),
           ErrorCode::workspace_too_small);
  }
  if (!(workspace.device == device)) {
    refuse(argument, "memory on " + to_string(device), "memory on " + to_string(workspace.device));
  }
}

}  // namespace moesaic
