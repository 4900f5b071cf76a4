// SPDX-License-Identifier: Apache-2.0
// The handler that remembers an interrupt.
#include "interrupt.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace moesaic::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0;
struct sigaction previous {};

/// sigaction() and write() alone: nothing else may be called here.
void remember(int /*signal*/) {
  static constexpr std::string_view kAnswer =
      "\nmoesaic: interrupted; finishing what runs now, then printing what is done (again: end "
      "now)\n";
  interrupts = 1;
  sigaction(SIGINT, &previous, nullptr);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kAnswer.data(), kAnswer.size());
}

}  // namespace

Interrupt::Interrupt() {
  struct sigaction action {};
  action.sa_handler = remember;
  if (sigaction(SIGINT, nullptr, &previous) != 0 || previous.sa_handler == SIG_IGN) return;
  handles_ = sigaction(SIGINT, &action, nullptr) == 0;
}

Interrupt::~Interrupt() {
  if (handles_ && !came()) sigaction(SIGINT, &previous, nullptr);
}

bool Interrupt::came() noexcept { return interrupts != 0; }

void end_interrupted() {
  std::fflush(stdout);
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
  std::abort();
}

}  // namespace moesaic::cli
