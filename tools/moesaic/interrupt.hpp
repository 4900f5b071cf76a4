// SPDX-License-Identifier: Apache-2.0
// An interrupt of long work whose finished part is worth printing.
#pragma once

#include <csignal>

namespace moesaic::cli {

/// While one lives, the first SIGINT is only remembered and answered on stderr; the second does
/// what the first would have done without it. A caller that ignores interrupts keeps ignoring them.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// True once one came, also after the object's end.
  static bool came() noexcept;

 private:
  bool handles_ = false;
};

/// Ends the process as an interrupted one, after all that was printed has been delivered.
[[noreturn]] void end_interrupted();

}  // namespace moesaic::cli
