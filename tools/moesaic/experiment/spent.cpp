// SPDX-License-Identifier: Apache-2.0
// See spent.hpp.
#include "experiment/spent.hpp"

#include <algorithm>

#include "text.hpp"

namespace moesaic::cli::experiment {

Spent& Spent::operator+=(const Spent& more) {
  for (const SpentPart part : kSpentParts) this->*part += more.*part;
  return *this;
}

std::string Spent::words() const {
  return "start " + duration(start) + ", prepare " + duration(prepare) + ", check " +
         duration(check) + ", timing " + duration(timing) + ", other " + duration(other);
}

void Account::charge(SpentPart part) {
  const Clock::time_point now = Clock::now();
  spent_.*part += std::chrono::duration<double>(now - charged_).count();
  charged_ = now;
}

double Account::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

double corrected_seconds(const Spent& expected, const Spent& spent, const Spent& done) {
  static constexpr double kEnoughSeconds = 0.5;  // spent or expected: less says nothing
  double seconds = 0;
  for (const SpentPart part : kSpentParts) {
    const bool known = done.*part > 0 && std::max(done.*part, spent.*part) > kEnoughSeconds;
    seconds += expected.*part * (known ? spent.*part / done.*part : 1);
  }
  return seconds;
}

}  // namespace moesaic::cli::experiment
