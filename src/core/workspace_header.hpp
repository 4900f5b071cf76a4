// SPDX-License-Identifier: Apache-2.0
// The first bytes of every workspace: records that execute leaves for the host. Same on CPU and
// GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "math/tile_counters.hpp"
#include "moesaic/workspace.hpp"

namespace moesaic::core {

struct WorkspaceHeader {
  std::uint64_t fault_word = 0;        ///< math/fault_word.hpp; 0 = none.
  std::int64_t overflow_rows = 0;      ///< Of the last padded_bmm execute; no other writes it.
  math::TileCounters counters{};       ///< Of a launch that is running.
  std::uint64_t route_fault_word = 0;  ///< math/route_fault.hpp; 0 = none.
  std::int64_t dropped_routes = 0;     ///< Of the last route_maps; no other writes it.
};

/// Scratch of a backend begins here, so that it stays aligned for every use.
inline constexpr std::size_t kWorkspaceHeaderBytes = kWorkspaceAlignment;
static_assert(sizeof(WorkspaceHeader) <= kWorkspaceHeaderBytes);

/// Decodes a fault word read from a header.
DeviceFault decode_fault(std::uint64_t fault_word);

/// @throws Error{workspace_too_small} unless `workspace` has `needed_bytes`, is aligned and lies on
/// `device`.
void check_workspace(const Workspace& workspace, std::size_t needed_bytes, Device device,
                     std::string_view argument = "workspace");

}  // namespace moesaic::core
