// SPDX-License-Identifier: Apache-2.0
// See lease_pool.hpp.

#include "core/lease_pool.hpp"

#include <algorithm>
#include <string>

#include "core/message.hpp"

namespace moesaic::core {

SymmetricBuffer LeasePool::lease(std::size_t size_bytes, const Make& make) {
  if (size_bytes == 0) {
    refuse("size_bytes", "at least 1", "0");
  }
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t>& free = released_[size_bytes];
  std::int64_t id = 0;
  if (free.empty()) {
    id = static_cast<std::int64_t>(slots_.size());
    slots_.push_back({{id, size_bytes, make(id, size_bytes)}, false});
    usage_.pooled_bytes += size_bytes;
  } else {
    id = free.back();
    free.pop_back();
  }
  Slot& slot = slots_[static_cast<std::size_t>(id)];
  slot.leased = true;
  usage_.leases += 1;
  usage_.leased_bytes += size_bytes;
  usage_.high_water_bytes = std::max(usage_.high_water_bytes, usage_.leased_bytes);
  return slot.buffer;
}

void LeasePool::release(const SymmetricBuffer& buffer) {
  const std::lock_guard lock(mutex_);
  const bool known = buffer.id >= 0 && buffer.id < static_cast<std::int64_t>(slots_.size());
  Slot* slot = known ? &slots_[static_cast<std::size_t>(buffer.id)] : nullptr;
  if (slot == nullptr || slot->buffer.data != buffer.data) {
    refuse("buffer", "one that this group leased", "buffer " + std::to_string(buffer.id));
  }
  if (!slot->leased) {
    refuse("buffer", "one that is leased",
           "buffer " + std::to_string(buffer.id) + ", which was released before");
  }
  slot->leased = false;
  released_[slot->buffer.size_bytes].push_back(buffer.id);
  usage_.leases -= 1;
  usage_.leased_bytes -= slot->buffer.size_bytes;
}

PoolUsage LeasePool::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::optional<LeasePool::Place> LeasePool::find(const void* address, std::size_t index) const {
  const auto* wanted = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    const auto* begin = static_cast<const std::byte*>(slot.buffer.data[index]);
    if (slot.leased && begin <= wanted && wanted < begin + slot.buffer.size_bytes) {
      const auto offset = static_cast<std::size_t>(wanted - begin);
      return Place{slot.buffer.id, offset, slot.buffer.size_bytes - offset};
    }
  }
  return std::nullopt;
}

}  // namespace moesaic::core
