// SPDX-License-Identifier: Apache-2.0
// Ranges of one block of memory that is never touched here: first fit, neighbours merge when freed.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace moesaic::core {

class RangeAllocator {
 public:
  /// `alignment` is a power of two; every range begins at a multiple of it.
  RangeAllocator(std::size_t size_bytes, std::size_t alignment)
      : size_bytes_(size_bytes), alignment_(alignment) {
    if (size_bytes > 0) free_.emplace(0, size_bytes);
  }

  /// Offset of a range of at least `size_bytes` > 0 bytes; none where nothing that large is free.
  std::optional<std::size_t> allocate(std::size_t size_bytes) {
    if (size_bytes > size_bytes_) return std::nullopt;
    const std::size_t size = (size_bytes + alignment_ - 1) / alignment_ * alignment_;
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < size) continue;
      const auto [offset, room] = *range;
      free_.erase(range);
      if (room > size) free_.emplace(offset + size, room - size);
      used_.emplace(offset, size);
      used_bytes_ += size;
      return offset;
    }
    return std::nullopt;
  }

  /// Frees a range by its offset; one that is not in use stays as it is.
  void release(std::size_t offset) {
    const auto found = used_.find(offset);
    if (found == used_.end()) return;
    used_bytes_ -= found->second;
    auto range = free_.emplace(offset, found->second).first;
    used_.erase(found);
    const auto next = std::next(range);
    if (next != free_.end() && range->first + range->second == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range != free_.begin()) {
      const auto before = std::prev(range);
      if (before->first + before->second == range->first) {
        before->second += range->second;
        free_.erase(range);
      }
    }
  }

  [[nodiscard]] std::size_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  /// The largest range that could be had now.
  [[nodiscard]] std::size_t largest_free_bytes() const {
    std::size_t largest = 0;
    for (const auto& [offset, room] : free_) largest = room > largest ? room : largest;
    return largest;
  }

 private:
  std::size_t size_bytes_, alignment_;
  std::size_t used_bytes_ = 0;
  std::map<std::size_t, std::size_t> free_, used_;  // offset -> bytes
};

}  // namespace moesaic::core
