// SPDX-License-Identifier: Apache-2.0
// Seconds of a run by what they go to: expected, spent, and what the one teaches about the other.
#pragma once

#include <array>
#include <chrono>
#include <string>

namespace moesaic::cli::experiment {

struct Spent {
  double start = 0;    ///< From the begin of a process to its first case.
  double prepare = 0;  ///< Operands, plans, workspaces.
  double check = 0;    ///< One execute of every arm and the comparison of its result.
  double timing = 0;   ///< Warm-ups and samples: what the protocol itself needs.
  double other = 0;    ///< Rows, and what is none of these.

  [[nodiscard]] double total() const { return start + prepare + check + timing + other; }
  Spent& operator+=(const Spent& more);
  /// "start 1.2 s, prepare 310 ms, check 20.9 s, timing 91.5 s, other 1.1 s"
  [[nodiscard]] std::string words() const;
};

/// A part of Spent.
using SpentPart = double Spent::*;
inline constexpr std::array kSpentParts = {&Spent::start, &Spent::prepare, &Spent::check,
                                           &Spent::timing, &Spent::other};

/// Time since it was made or charged last, put to what it went to.
class Account {
 public:
  void charge(SpentPart part);
  [[nodiscard]] const Spent& spent() const { return spent_; }
  /// All of it since it was made.
  [[nodiscard]] double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now(), charged_ = begin_;
  Spent spent_;
};

/// What is expected, each part by how long it has taken so far beside what was expected of it.
/// `done` is what was expected of all that was spent.
double corrected_seconds(const Spent& expected, const Spent& spent, const Spent& done);

/// What finished cases took and what was expected of them. A case that was stopped between its
/// steps says nothing about those that it has not reached.
struct Lesson {
  Spent spent, expected;
  /// A case has ended; `all_spent` is the account's so far.
  void learn(const Spent& all_spent, const Spent& case_expected) {
    spent = all_spent;
    expected += case_expected;
  }
  [[nodiscard]] double corrected(const Spent& next) const {
    return corrected_seconds(next, spent, expected);
  }
};

}  // namespace moesaic::cli::experiment
