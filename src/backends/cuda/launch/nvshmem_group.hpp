// SPDX-License-Identifier: Apache-2.0
// One rank of a group of processes with a GPU each: how it finds the others, memory that they
// reach, barriers, and the record of a rank that did not come.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/transport/peer.hpp"
#include "core/expert_parallel_impl.hpp"

namespace moesaic::backends::cuda::launch {

class NvshmemProcess;

/// Waits for work on `device` that uses the memory, whichever device is current.
struct FreeMemory {
  int device = 0;
  void operator()(void* data) const noexcept;
};
struct FreeHostMemory {
  int device = 0;
  void operator()(void* data) const noexcept;
};
using DeviceMemory = std::unique_ptr<void, FreeMemory>;
using MappedHostMemory = std::unique_ptr<void, FreeHostMemory>;

/// A range of equal size on all ranks, and where the peers have theirs, on the device.
class SymmetricRegion {
 public:
  /// On the current device, that of the process.
  SymmetricRegion(std::shared_ptr<NvshmemProcess> process, std::size_t offset, std::byte* data,
                  const std::vector<transport::Peer>& peers);
  SymmetricRegion(const SymmetricRegion&) = delete;
  SymmetricRegion& operator=(const SymmetricRegion&) = delete;
  ~SymmetricRegion();

  [[nodiscard]] std::byte* data() const { return data_; }
  /// On the device.
  [[nodiscard]] const transport::Peer* peers() const {
    return static_cast<const transport::Peer*>(peers_.get());
  }

 private:
  std::shared_ptr<NvshmemProcess> process_;
  std::size_t offset_;
  std::byte* data_;
  DeviceMemory peers_;
};

class NvshmemGroup final : public detail::ExpertParallelGroupImpl {
 public:
  /// The options have been checked. See ExpertParallelGroup::nvshmem().
  explicit NvshmemGroup(const NvshmemGroupOptions& options);
  ~NvshmemGroup() override;

  [[nodiscard]] std::string_view transport() const noexcept override { return "nvshmem"; }
  [[nodiscard]] std::vector<void*> make_buffer(std::int64_t id, std::size_t size_bytes) override;
  void barrier(const Stream& stream) override;
  void check(const Stream& stream) override;

  /// Collective. `what` names it; the content is zero on all ranks before any of them goes on.
  [[nodiscard]] std::shared_ptr<SymmetricRegion> make_region(const std::string& what,
                                                             std::size_t size_bytes);
  /// Collective. @throws Error{invalid_argument} unless all ranks say the same.
  void agree(const std::string& what, const std::string& text);
  /// A number that the n-th call has on every rank.
  [[nodiscard]] std::int64_t next_plan() { return ++plans_; }

  [[nodiscard]] const transport::GroupView& view() const { return view_; }
  [[nodiscard]] int rank() const { return view_.rank; }
  [[nodiscard]] int num_sms() const { return num_sms_; }
  /// Where the buffer with this id has its peers.
  [[nodiscard]] std::shared_ptr<SymmetricRegion> buffer(std::int64_t id) const;
  /// @throws Error{device_failure} once a rank was waited for in vain.
  void throw_if_broken() const;

 private:
  [[nodiscard]] std::vector<std::string> exchange(const std::string& what,
                                                  const std::string& value);
  void start_process(const NvshmemGroupOptions& options);
  void make_control(double timeout_seconds);
  [[nodiscard]] std::uint64_t broken_word() const;

  std::shared_ptr<Rendezvous> rendezvous_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<NvshmemProcess> process_;
  std::vector<int> pes_;  // of each rank
  std::shared_ptr<SymmetricRegion> control_;
  DeviceMemory local_words_;    // generation and broken
  MappedHostMemory host_word_;  // broken
  transport::GroupView view_;
  int num_sms_ = 1;
  std::atomic<std::int64_t> plans_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<SymmetricRegion>> buffers_;  // by id
};

}  // namespace moesaic::backends::cuda::launch
