// SPDX-License-Identifier: Apache-2.0
// Names for pieces of work, by which a profiler's counters are found again.
#pragma once

#include <string>

#include "moesaic/device.hpp"

namespace moesaic {

/// While it lives, what its thread enqueues on devices of `device`'s kind belongs to this name: an
/// NVTX range on CUDA devices, nothing on the CPU. Ranges of a thread nest.
class ProfileRange {
 public:
  ProfileRange(const std::string& name, Device device) noexcept;
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

  /// False where no profiler could see it.
  [[nodiscard]] bool marked() const noexcept { return marked_; }

 private:
  Device device_;
  bool marked_;
};

}  // namespace moesaic
