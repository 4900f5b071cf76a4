// SPDX-License-Identifier: Apache-2.0
// A line on stderr that says how far long work is and how long it will take: only on a terminal,
// only once the work has lasted two seconds, and gone when the work ends or is interrupted.
#pragma once

#include <chrono>
#include <csignal>
#include <string>

namespace moesaic::cli {

class Progress {
 public:
  /// `total` is in any unit that grows evenly with time, such as FLOPs.
  Progress(std::string what, double total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total`; `step` says in a few words what runs now. Redraws ten times a second at
  /// most.
  void update(double done, const std::string& step);
  /// Takes the line off the terminal, before something else is printed there.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  double total_;
  bool terminal_, colour_;
  Clock::time_point start_ = Clock::now();
  std::size_t shown_ = 0;     ///< Characters on the terminal now.
  double drawn_seconds_ = 0;  ///< When, after the start.
  bool handles_ = false;      ///< Interrupts erase the line; else `interrupt_` was left alone.
  struct sigaction interrupt_ {};
};

/// The line itself: "run [#####.....] 50 %, 12 s left: layer 3 grouped".
std::string progress_line(const std::string& what, double fraction, double elapsed_seconds,
                          const std::string& step);

}  // namespace moesaic::cli
