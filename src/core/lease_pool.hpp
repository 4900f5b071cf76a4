// SPDX-License-Identifier: Apache-2.0
// Which buffers of a group are leased. Ranks that lease and release in the same order get the same
// buffers: nothing here depends on addresses or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "moesaic/expert_parallel_group.hpp"

namespace moesaic::core {

class LeasePool {
 public:
  /// Memory of each local rank for a buffer that did not exist yet.
  using Make = std::function<std::vector<void*>(std::int64_t id, std::size_t size_bytes)>;

  /// The buffer of this size that was released last, else a new one.
  /// @throws Error{invalid_argument} on size_bytes = 0, and what `make` throws; then nothing is
  /// leased.
  SymmetricBuffer lease(std::size_t size_bytes, const Make& make);
  /// @throws Error{invalid_argument} on a buffer that is not leased.
  void release(const SymmetricBuffer& buffer);
  [[nodiscard]] PoolUsage usage() const;

  /// Where an address of local rank `index` lies in a leased buffer.
  struct Place {
    std::int64_t id = -1;
    std::size_t offset_bytes = 0;
    std::size_t room_bytes = 0;  ///< To the buffer's end.
  };
  [[nodiscard]] std::optional<Place> find(const void* address, std::size_t index) const;

 private:
  struct Slot {
    SymmetricBuffer buffer;
    bool leased = false;
  };

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;                                    // by id
  std::map<std::size_t, std::vector<std::int64_t>> released_;  // by size, the latest last
  PoolUsage usage_;
};

}  // namespace moesaic::core
