// SPDX-License-Identifier: Apache-2.0
// The ranks of expert parallelism: how they find one another, and the memory that they share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "moesaic/device.hpp"
#include "moesaic/stream.hpp"

namespace moesaic {

namespace detail {
class ExpertParallelGroupImpl;
}  // namespace detail

/// How the processes of a group find one another: small values that all of them can read. Used when
/// a group, a plan or a new buffer is made, never by an operation on rows.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  /// Publishes a value under a key that nobody has published.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until somebody has published the key, and returns its value.
  /// @throws Error{device_failure} naming the key when `timeout` has passed.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

/// A rendezvous in a folder that the processes of one host share. The folder is this group's alone:
/// empty, or absent and then made. Its files stay; whoever made it removes it.
/// @throws Error{invalid_argument} when `folder` is not one, or cannot be written.
std::shared_ptr<Rendezvous> file_rendezvous(const std::string& folder);

/// What this process brings to a group of one process per GPU.
struct NvshmemGroupOptions {
  int rank = -1;                           ///< Of this process, 0 to num_ranks - 1.
  int num_ranks = 0;                       ///< R
  Device device{DeviceKind::cuda, 0};      ///< This rank's GPU, no other rank's.
  std::shared_ptr<Rendezvous> rendezvous;  ///< One for each group.
  /// Memory of this process that peers can reach. The process's first group reserves it, for all
  /// groups.
  std::size_t heap_bytes = std::size_t{4} << 30;
  /// How long a rank waits for another, in a barrier on the device and in a rendezvous.
  double timeout_seconds = 60;
};

/// Memory of equal size on all ranks, which all of them can reach. A value; see lease().
struct SymmetricBuffer {
  std::int64_t id = -1;        ///< The same on all ranks.
  std::size_t size_bytes = 0;  ///< As asked for.
  std::vector<void*> data;     ///< Of each local rank, 256-byte aligned.
};

/// What of a group's pool is in use on this process.
struct PoolUsage {
  std::int64_t leases = 0;
  std::size_t leased_bytes = 0;
  std::size_t high_water_bytes = 0;  ///< The most that were ever leased at once.
  std::size_t pooled_bytes = 0;      ///< Leased, or released and kept for the next lease.
};

/// The ranks that exchange rows, and how they reach one another. Cheap to copy; copies are the same
/// group.
class ExpertParallelGroup {
 public:
  /// `num_ranks` ranks (1 to 1,024) in this process, on the CPU: what every transport must do,
  /// without one. A call works on the ranks in turn. Barriers wait for nobody and are counted.
  /// @throws Error{invalid_argument} naming num_ranks.
  static ExpertParallelGroup simulated(int num_ranks);

  /// Joins the group of all processes that were given the same rendezvous; collective. The first
  /// group of a process starts NVSHMEM among its ranks; any later one must be of ranks of that
  /// first group, in any order and number, and has barriers and buffers of its own. On one host
  /// rows travel over NVLink; variables of NVSHMEM that are unset are set to what that needs.
  /// @throws Error{invalid_argument} naming the option; Error{unsupported} where this build has no
  /// NVSHMEM, or another version is loaded; Error{device_failure} when a rank does not come.
  static ExpertParallelGroup nvshmem(const NvshmemGroupOptions& options);

  [[nodiscard]] int num_ranks() const noexcept;  ///< R
  /// Ranks whose memory this process holds, ascending: all when simulated, else one. A call takes
  /// the arguments of each.
  [[nodiscard]] std::span<const int> local_ranks() const noexcept;
  [[nodiscard]] Device device() const noexcept;  ///< Where the memory of the local ranks is.
  [[nodiscard]] std::string_view transport() const noexcept;  ///< "simulated", "nvshmem"
  /// Barriers of all ranks so far, as enqueued by this process.
  [[nodiscard]] std::int64_t barriers() const noexcept;

  /// A buffer for `out` of PUT or `expert_out` of GET. Collective: all ranks lease and release in
  /// the same order, with the same sizes. One that was released is handed out again for its size,
  /// the latest first, without a rendezvous. Its content is undefined.
  /// @throws Error{device_failure} when the memory is used up, saying how much there is.
  [[nodiscard]] SymmetricBuffer lease(std::size_t size_bytes) const;
  /// Gives a buffer back: the next lease may hand it out while work on it is still queued.
  /// @throws Error{invalid_argument} on a buffer that is not leased: released twice, or another
  /// group's.
  void release(const SymmetricBuffer& buffer) const;
  [[nodiscard]] PoolUsage pool_usage() const;

  /// Enqueues a barrier of all ranks.
  void barrier(Stream stream) const;
  /// Waits for `stream`. @throws Error{device_failure} naming the rank for which this one waited in
  /// vain: then the group is broken, rows may be missing, and every later call throws the same.
  void check(Stream stream) const;

  [[nodiscard]] detail::ExpertParallelGroupImpl& impl() const noexcept { return *impl_; }
  explicit ExpertParallelGroup(std::shared_ptr<detail::ExpertParallelGroupImpl> impl);

 private:
  std::shared_ptr<detail::ExpertParallelGroupImpl> impl_;
};

}  // namespace moesaic
