// SPDX-License-Identifier: Apache-2.0
// An mbarrier, for models of kernels whose actors step in random order.
#pragma once

#include <cstdint>

namespace moesaic {

/// Its phase ends when all arrivals and all expected bytes have come. Bytes may come before they
/// are expected.
struct ModelBarrier {
  int arrivals = 1, pending = 1, bytes = 0;
  std::int64_t completed = 0;

  void init(int count) { arrivals = pending = count; }
  void arrive(int count = 1) {
    pending -= count;
    settle();
  }
  void expect(int count) { bytes += count; }
  void transfer(int count) {
    bytes -= count;
    settle();
  }
  [[nodiscard]] bool would_pass(std::uint32_t parity) const {
    return static_cast<std::uint32_t>(completed % 2) != parity;
  }

 private:
  void settle() {
    if (pending > 0 || bytes != 0) return;
    pending += arrivals;
    ++completed;
  }
};

}  // namespace moesaic
