// SPDX-License-Identifier: Apache-2.0
// Replaces operator new of a whole test program, so that one chosen allocation fails. Include it in
// one file of an executable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace moesaic::testing {

/// Allocations that still succeed, counted down over all threads; negative: all of them.
inline std::atomic<std::int64_t> allocations_left = -1;

/// While it lives, allocation number `count` (from 0) throws std::bad_alloc; the others succeed.
class FailingNew {
 public:
  explicit FailingNew(std::int64_t count) { allocations_left = count; }
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;
  ~FailingNew() { allocations_left = -1; }
};

/// Runs `body` once for each of its allocations with that one failing, until none fails.
/// @returns how often std::bad_alloc reached the caller.
template <class Body>
std::int64_t count_failing_allocations(const Body& body) {
  for (std::int64_t count = 0;; ++count) {
    try {
      const FailingNew failing(count);
      body();
      return count;
    } catch (const std::bad_alloc&) {  // the next round lets one more succeed
    }
  }
}

}  // namespace moesaic::testing

// Not inlined: g++ would take malloc and delete, or new and free, for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size_bytes) {
  auto& left = moesaic::testing::allocations_left;
  if (left.load(std::memory_order_relaxed) >= 0 && left.fetch_sub(1) == 0) {
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size_bytes == 0 ? 1 : size_bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size_bytes*/) noexcept {
  std::free(memory);
}
