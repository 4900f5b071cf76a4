// SPDX-License-Identifier: Apache-2.0
// The progress line on stderr.
#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "text.hpp"

namespace moesaic::cli {
namespace {

constexpr double kQuietSeconds = 2, kRedrawSeconds = 0.1;

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return no_colour == nullptr || *no_colour == '\0';
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

constexpr std::size_t kMostWidth = 512;

/// What takes the line off: written by the handler as it stands, so it is kept ready.
std::array<char, kMostWidth + 2> eraser;
volatile std::sig_atomic_t eraser_size = 0;

/// write() and raise() alone: nothing else may be called here. The disposition is back at the
/// default by then (SA_RESETHAND), so the process ends as an interrupted one.
void erase_and_end(int signal) {
  if (eraser_size > 0) {
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, eraser.data(), static_cast<std::size_t>(eraser_size));
  }
  raise(signal);
}

void prepare_eraser(std::size_t shown) {
  eraser_size = 0;
  if (shown == 0) return;
  eraser.fill(' ');
  eraser.front() = eraser[shown + 1] = '\r';
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the text before its size
  eraser_size = static_cast<std::sig_atomic_t>(shown + 2);
}

}  // namespace

std::string progress_line(const std::string& what, double fraction, double elapsed_seconds,
                          const std::string& step) {
  static constexpr std::size_t kCells = 20;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(fraction * kCells);
  const std::string bar = std::string(full, '#') + std::string(kCells - full, '.');
  std::string left = "time left unknown";
  if (fraction > 0) left = duration(elapsed_seconds * (1 - fraction) / fraction) + " left";
  return format("%s [%s] %3.0f %%, %s: %s", what.c_str(), bar.c_str(), 100 * fraction, left.c_str(),
                step.c_str());
}

Progress::Progress(std::string what, double total)
    : what_(std::move(what)),
      total_(total),
      terminal_(stderr_is_terminal()),
      colour_(wants_colour()) {
  struct sigaction erase {};
  erase.sa_handler = erase_and_end;
  erase.sa_flags = static_cast<int>(SA_RESETHAND);
  // A caller that ignores interrupts (nohup, a background job) keeps ignoring them.
  if (!terminal_ || sigaction(SIGINT, nullptr, &interrupt_) != 0) return;
  if (interrupt_.sa_handler == SIG_IGN) return;
  handles_ = sigaction(SIGINT, &erase, nullptr) == 0;
}

Progress::~Progress() {
  clear();
  if (handles_) sigaction(SIGINT, &interrupt_, nullptr);
}

void Progress::update(double done, const std::string& step) {
  if (!terminal_) return;
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  if (elapsed < kQuietSeconds || elapsed < drawn_seconds_ + kRedrawSeconds) return;
  drawn_seconds_ = elapsed;
  std::string line = progress_line(what_, total_ > 0 ? done / total_ : 0, elapsed, step);
  line.resize(std::min({line.size(), terminal_width() - 1, kMostWidth}));
  clear();
  shown_ = line.size();
  prepare_eraser(shown_);
  if (colour_) line = "\033[36m" + line + "\033[0m";
  std::fputs(("\r" + line).c_str(), stderr);
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_ == 0) return;
  std::fputs(("\r" + std::string(shown_, ' ') + "\r").c_str(), stderr);
  std::fflush(stderr);
  shown_ = 0;
  prepare_eraser(0);
}

}  // namespace moesaic::cli
