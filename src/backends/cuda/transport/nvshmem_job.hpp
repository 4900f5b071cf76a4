// SPDX-License-Identifier: Apache-2.0
// NVSHMEM in this process: begun once, by a unique id that one rank makes and all others are given;
// one block of symmetric memory, out of which all groups get theirs. Every call works on the device
// that was current at the start.
#pragma once

#include <cstddef>
#include <string>

#include "moesaic/error.hpp"

namespace moesaic::backends::cuda::transport {

/// A new id, as bytes that may travel.
std::string make_unique_id();

/// Says by environment variables what NVSHMEM needs between GPUs of one host. Those that are set
/// stay.
void set_one_host_defaults(std::size_t heap_bytes);

class NvshmemJob {
 public:
  /// Collective over the `num_pes` processes that were given `unique_id`.
  /// @throws Error{device_failure} with NVSHMEM's status.
  NvshmemJob(const std::string& unique_id, int pe, int num_pes, std::size_t heap_bytes);
  NvshmemJob(const NvshmemJob&) = delete;
  NvshmemJob& operator=(const NvshmemJob&) = delete;
  ~NvshmemJob() = default;

  /// Ends NVSHMEM; collective, and waits for all processes.
  void finalize() noexcept;

  [[nodiscard]] int pe() const { return pe_; }
  [[nodiscard]] int num_pes() const { return num_pes_; }
  [[nodiscard]] std::byte* heap() const { return heap_; }
  [[nodiscard]] std::size_t heap_bytes() const { return heap_bytes_; }
  /// What process `pe` has at this symmetric address, as seen here; null where it is not mapped.
  [[nodiscard]] std::byte* mapped(std::byte* symmetric, int pe) const;

 private:
  int pe_, num_pes_;
  std::size_t heap_bytes_;
  std::byte* heap_ = nullptr;
};

}  // namespace moesaic::backends::cuda::transport
