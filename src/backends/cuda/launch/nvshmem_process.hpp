// SPDX-License-Identifier: Apache-2.0
// NVSHMEM as all groups of this process share it: begun by the first group, ended with the last
// one.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "backends/cuda/transport/nvshmem_job.hpp"
#include "core/range_allocator.hpp"
#include "moesaic/expert_parallel_group.hpp"

namespace moesaic::backends::cuda::launch {

class NvshmemProcess {
 public:
  /// The one of this process; null before the first group and after the last.
  static std::shared_ptr<NvshmemProcess> current();
  /// Begins NVSHMEM on the current device, `device`; collective over the ranks of `options`, all of
  /// which have been given `unique_id`.
  static std::shared_ptr<NvshmemProcess> begin(const NvshmemGroupOptions& options,
                                               const std::string& unique_id);
  NvshmemProcess(const NvshmemGroupOptions& options, const std::string& unique_id);
  NvshmemProcess(const NvshmemProcess&) = delete;
  NvshmemProcess& operator=(const NvshmemProcess&) = delete;
  /// Ends NVSHMEM when all its processes come to this point within the time-out, else leaves it as
  /// it is: a rank that died must not hold up the others' end.
  ~NvshmemProcess();

  [[nodiscard]] const transport::NvshmemJob& job() const { return job_; }
  [[nodiscard]] const std::string& id() const { return id_; }  ///< The same in all its processes.
  [[nodiscard]] Device device() const { return options_.device; }
  /// Of the heap, 512-byte aligned. @throws Error{device_failure} saying what there is.
  std::size_t allocate(std::size_t size_bytes, const std::string& what);
  void release(std::size_t offset);
  /// A group of this process waited in vain for a rank.
  void note_broken() { broken_ = true; }

 private:
  NvshmemGroupOptions options_;
  std::string id_;
  transport::NvshmemJob job_;
  std::mutex mutex_;
  core::RangeAllocator ranges_;
  bool broken_ = false;
};

/// Which machine this is, the same in all its processes until it boots again.
std::string host_identity();

}  // namespace moesaic::backends::cuda::launch
