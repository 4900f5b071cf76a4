// SPDX-License-Identifier: Apache-2.0
// Caller-owned scratch memory, and the records that products leave in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "moesaic/device.hpp"
#include "moesaic/stream.hpp"

namespace moesaic {

/// Scratch of a plan: at least `workspace_bytes()` long, 256-byte aligned, on the plan's device.
/// The caller zeroes it once after allocating; every launch leaves it ready for the next. Two
/// executes that may overlap in time need two workspaces.
struct Workspace {
  std::span<std::byte> bytes;
  Device device{};
};

inline constexpr std::size_t kWorkspaceAlignment = 256;

/// A zeroed host workspace that frees itself. A copy has its own memory.
class HostWorkspace {
 public:
  explicit HostWorkspace(std::size_t size_bytes);
  /// The aligned part of this object's memory; valid until it is destroyed or assigned to.
  [[nodiscard]] Workspace get() const noexcept;

 private:
  std::size_t size_bytes_;
  mutable std::vector<std::byte> storage_;  // get() hands out writable memory of a const owner
};

/// What was wrong with offsets that only the device has seen.
struct DeviceFault {
  enum class Kind : std::uint32_t { none = 0, offs_not_monotonic = 1, offs_out_of_range = 2 };
  Kind kind = Kind::none;
  int expert = -1;         ///< The lowest expert whose end offset is bad.
  std::int64_t value = 0;  ///< offs[expert] as it was read.
  explicit operator bool() const noexcept { return kind != Kind::none; }
};

/// Returns the fault record of all executes on `workspace` since the last call, and clears it.
/// Synchronizes `stream`: for tests and debug builds, not for every step. An execute that another
/// thread enqueues between the reading and the clearing may lose its record.
/// @throws Error{workspace_too_small} on a workspace that no execute can have used.
DeviceFault read_fault(Workspace workspace, Stream stream);

/// Rows that did not fit into their expert's capacity in the last `padded_bmm` execute on
/// `workspace`. They were computed all the same, one product per overfull expert. Synchronizes.
std::int64_t read_overflow_rows(Workspace workspace, Stream stream);

}  // namespace moesaic
